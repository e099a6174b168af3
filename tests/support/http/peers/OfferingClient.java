import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;

/** Publishes by Java's own client with its defaults, which offer h2c to http:// addresses: URL, then one body each. */
class OfferingClient {
    public static void main(String[] arguments) throws Exception {
        URI place = URI.create(arguments[0]);
        for (int at = 1; at < arguments.length; at++) {
            byte[] body = arguments[at].getBytes(StandardCharsets.UTF_8);
            BodyPublisher sized = BodyPublishers.ofByteArray(body);
            BodyPublisher chunked = BodyPublishers.ofByteArrays(Stream.of(body).toList());
            for (BodyPublisher each : new BodyPublisher[] {sized, chunked}) {
                HttpClient client = HttpClient.newHttpClient(); // a later request of the same one offers nothing more
                HttpRequest request = HttpRequest.newBuilder(place)
                    .header("Content-Type", "application/json")
                    .header("ce-specversion", "1.0")
                    .header("ce-id", Integer.toString(at))
                    .header("ce-source", "/java")
                    .header("ce-type", "reading")
                    .POST(each)
                    .build();
                HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println(answer.statusCode() + " " + answer.version());
            }
        }
    }
}
