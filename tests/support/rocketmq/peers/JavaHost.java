// rocketmq-client-java for the tests, told by lines of JSON what to do: the verbs of python_host.py that the list of
// capabilities needs. All settings are the SDK's own, TLS with them.
// In: [number, verb, arguments]. Out: {answer, result|error, code} or {pushed: handle, message|done}.

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.shaded.com.google.gson.Gson;
import org.apache.rocketmq.shaded.com.google.gson.GsonBuilder;
import org.apache.rocketmq.shaded.com.google.gson.JsonArray;
import org.apache.rocketmq.shaded.com.google.gson.JsonElement;
import org.apache.rocketmq.shaded.com.google.gson.JsonObject;
import org.apache.rocketmq.shaded.com.google.gson.JsonParser;

public class JavaHost {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final Gson GSON = new GsonBuilder().serializeNulls().create();
    static final Pattern CODE = Pattern.compile("response-code=(\\d+)");
    static final PrintStream SAID = System.out;
    static final Map<Long, Closeable> CLIENTS = new ConcurrentHashMap<>();
    static final Map<Long, MessageView> MESSAGES = new ConcurrentHashMap<>();
    static final AtomicLong HANDLES = new AtomicLong();
    static ClientConfiguration configuration;

    public static void main(String[] arguments) throws Exception {
        JsonObject said = JsonParser.parseString(arguments[0]).getAsJsonObject();
        configuration = ClientConfiguration.newBuilder().setEndpoints(said.get("endpoints").getAsString()).build();
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonArray asked = JsonParser.parseString(line).getAsJsonArray();
            pool.submit(() -> answer(asked));
        }
        System.exit(0);
    }

    static void answer(JsonArray asked) {
        Map<String, Object> answer = new HashMap<>();
        answer.put("answer", asked.get(0).getAsLong());
        try {
            answer.put("result", run(asked.get(1).getAsString(), asked.get(2).getAsJsonObject()));
        } catch (Throwable error) {
            answer.put("error", error.toString());
            Matcher code = CODE.matcher(error.toString());
            answer.put("code", code.find() ? Integer.valueOf(code.group(1)) : null);
        }
        say(answer);
    }

    static synchronized void say(Map<String, Object> said) {
        SAID.println(GSON.toJson(said));
        SAID.flush();
    }

    static Object run(String verb, JsonObject given) throws Exception {
        switch (verb) {
            case "producer": return producer(given);
            case "send": return send(given);
            case "recall":
                return ((Producer) client(given)).recallMessage(text(given, "topic"), text(given, "handle")).getMessageId()
                    .toString();
            case "simple":
                return keep(PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                    .setConsumerGroup(text(given, "group")).setAwaitDuration(seconds(given, "wait"))
                    .setSubscriptionExpressions(wanted(given)).build(), HANDLES.incrementAndGet());
            case "receive": return receive(given);
            case "ack":
                ((SimpleConsumer) client(given)).ack(message(given));
                return null;
            case "change":
                ((SimpleConsumer) client(given)).changeInvisibleDuration(message(given), seconds(given, "seconds"));
                return null;
            case "push": return push(given);
            case "lite_push": return litePush(given);
            case "unsubscribe_lite":
                ((LitePushConsumer) client(given)).unsubscribeLite(text(given, "lite_topic"));
                return null;
            case "shutdown":
                CLIENTS.remove(given.get("client").getAsLong()).close();
                return null;
            default: throw new IllegalArgumentException(verb);
        }
    }

    static long producer(JsonObject given) throws ClientException {
        TransactionResolution resolution = resolution(text(given, "resolution"));
        return keep(PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(GSON.fromJson(given.get("topics"), String[].class)).setTransactionChecker(view -> {
                say(new HashMap<>(Map.of("checked", view.getMessageId().toString())));
                return resolution;
            }).build(), HANDLES.incrementAndGet());
    }

    static TransactionResolution resolution(String name) {
        return name.equals("commit") ? TransactionResolution.COMMIT
            : name.equals("rollback") ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
    }

    static Map<String, Object> send(JsonObject given) throws ClientException {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(text(given, "topic"))
            .setBody(Base64.getDecoder().decode(text(given, "body")));
        if (has(given, "tag")) builder.setTag(text(given, "tag"));
        if (has(given, "keys")) builder.setKeys(GSON.fromJson(given.get("keys"), String[].class));
        if (has(given, "properties")) {
            given.getAsJsonObject("properties").entrySet()
                .forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        if (has(given, "group")) builder.setMessageGroup(text(given, "group"));
        if (has(given, "deliver_at")) builder.setDeliveryTimestamp(given.get("deliver_at").getAsLong() * 1000);
        if (has(given, "lite")) builder.setLiteTopic(text(given, "lite"));
        if (has(given, "priority")) builder.setPriority(given.get("priority").getAsInt());
        Producer producer = (Producer) client(given);
        SendReceipt receipt;
        if (has(given, "end")) {
            Transaction transaction = producer.beginTransaction();
            receipt = producer.send(builder.build(), transaction);
            if (text(given, "end").equals("commit")) transaction.commit();
            if (text(given, "end").equals("rollback")) transaction.rollback();
        } else {
            receipt = producer.send(builder.build());
        }
        Map<String, Object> sent = new HashMap<>();
        sent.put("id", receipt.getMessageId().toString());
        sent.put("recall", receipt.getRecallHandle());
        return sent;
    }

    static List<Object> receive(JsonObject given) throws ClientException {
        List<Object> found = new ArrayList<>();
        SimpleConsumer consumer = (SimpleConsumer) client(given);
        consumer.receive(given.get("count").getAsInt(), seconds(given, "invisible")).forEach(view -> found.add(shown(view)));
        return found;
    }

    static MessageListener listener(long handle, int failures) {
        return view -> {
            say(new HashMap<>(Map.of("pushed", handle, "message", shown(view))));
            if (view.getDeliveryAttempt() <= failures) {
                return ConsumeResult.FAILURE;
            }
            say(new HashMap<>(Map.of("pushed", handle, "done", view.getMessageId().toString())));
            return ConsumeResult.SUCCESS;
        };
    }

    static long push(JsonObject given) throws ClientException {
        long handle = HANDLES.incrementAndGet();
        int failures = has(given, "failures") ? given.get("failures").getAsInt() : 0;
        return keep(PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(text(given, "group")).setSubscriptionExpressions(wanted(given))
            .setMessageListener(listener(handle, failures)).build(), handle);
    }

    static long litePush(JsonObject given) throws ClientException {
        long handle = HANDLES.incrementAndGet();
        LitePushConsumer consumer = PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(text(given, "group")).bindTopic(text(given, "topic"))
            .setMessageListener(listener(handle, 0)).build();
        for (JsonElement name : given.getAsJsonArray("lite_topics")) consumer.subscribeLite(name.getAsString());
        return keep(consumer, handle);
    }

    static Map<String, Object> shown(MessageView view) {
        long token = HANDLES.incrementAndGet();
        MESSAGES.put(token, view);
        ByteBuffer buffer = view.getBody();
        byte[] body = new byte[buffer.remaining()];
        buffer.get(body);
        Map<String, Object> shown = new HashMap<>();
        shown.put("token", token);
        shown.put("body", Base64.getEncoder().encodeToString(body));
        shown.put("topic", view.getTopic());
        shown.put("tag", view.getTag().orElse(""));
        shown.put("keys", new TreeSet<>(view.getKeys()));
        shown.put("properties", view.getProperties());
        shown.put("group", view.getMessageGroup().orElse(""));
        shown.put("lite", view.getLiteTopic().orElse(""));
        shown.put("id", view.getMessageId().toString());
        shown.put("attempt", view.getDeliveryAttempt());
        shown.put("corrupted", false);
        return shown;
    }

    static Map<String, FilterExpression> wanted(JsonObject given) {
        Map<String, FilterExpression> wanted = new HashMap<>();
        given.getAsJsonObject("subscriptions").entrySet().forEach(each -> {
            JsonArray filter = each.getValue().getAsJsonArray();
            boolean sql = filter.get(0).getAsString().equals("sql");
            wanted.put(each.getKey(), new FilterExpression(filter.get(1).getAsString(),
                sql ? FilterExpressionType.SQL92 : FilterExpressionType.TAG));
        });
        return wanted;
    }

    static long keep(Closeable client, long handle) {
        CLIENTS.put(handle, client);
        return handle;
    }

    static Closeable client(JsonObject given) {
        return CLIENTS.get(given.get("client").getAsLong());
    }

    static MessageView message(JsonObject given) {
        return MESSAGES.get(given.get("token").getAsLong());
    }

    static boolean has(JsonObject given, String name) {
        return given.has(name) && !given.get(name).isJsonNull();
    }

    static String text(JsonObject given, String name) {
        return given.get(name).getAsString();
    }

    static Duration seconds(JsonObject given, String name) {
        return Duration.ofSeconds(given.get(name).getAsLong());
    }
}
