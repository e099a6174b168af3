// Scenes of RabbitMQ's Java client, one thread each.  Arguments: the AMQP port, the port of the management API.
// Each prints one line: its name, "ok" or "fail", and what it saw.

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoverableConnection;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.Return;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class ClientScenes {
    interface Scene {
        String play(ConnectionFactory factory) throws Exception;
    }

    static final long PATIENCE_SECONDS = 20;
    static final int HEARTBEAT_SECONDS = 2;
    static int port;
    static int managementPort;

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        managementPort = Integer.parseInt(arguments[1]);
        List<Thread> threads = new ArrayList<>();
        for (String transport : List.of("blocking", "netty")) {
            threads.add(begin("idle", transport, ClientScenes::idle));
            threads.add(begin("transactions", transport, ClientScenes::transactions));
            threads.add(begin("prefetch", transport, ClientScenes::prefetch));
            threads.add(begin("queue_ttl", transport, ClientScenes::queueTtl));
            threads.add(begin("message_ttl", transport, ClientScenes::messageTtl));
            threads.add(begin("confirms", transport, ClientScenes::confirms));
            threads.add(begin("returns", transport, ClientScenes::returns));
            threads.add(begin("cancel", transport, ClientScenes::cancel));
            threads.add(begin("recovery", transport, ClientScenes::recovery));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    static Thread begin(String name, String transport, Scene scene) {
        Thread thread = new Thread(() -> {
            String said;
            try {
                said = " ok " + scene.play(factory(transport));
            } catch (Throwable problem) {
                said = " fail " + problem;
            }
            System.out.println(name + "-" + transport + said.replace('\n', ' '));
        });
        thread.start();
        return thread;
    }

    static ConnectionFactory factory(String transport) {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(port);
        factory.setRequestedHeartbeat(HEARTBEAT_SECONDS);
        factory.setNetworkRecoveryInterval(200);
        if (transport.equals("netty")) {
            factory.netty();
        }
        return factory;
    }

    static String fresh() {
        return "java-" + UUID.randomUUID();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void expect(Object expected, Object seen) {
        if (!expected.equals(seen)) {
            throw new IllegalStateException("expected " + expected + ", saw " + seen);
        }
    }

    static <T> T next(BlockingQueue<T> from) throws InterruptedException {
        T found = from.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (found == null) {
            throw new IllegalStateException("nothing came");
        }
        return found;
    }

    static String body(Delivery delivery) {
        return new String(delivery.getBody(), StandardCharsets.UTF_8);
    }

    static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck) throws Exception {
        BlockingQueue<Delivery> arrived = new LinkedBlockingQueue<>();
        DeliverCallback take = (tag, delivery) -> arrived.add(delivery);
        CancelCallback cancelled = tag -> { };
        channel.basicConsume(queue, autoAck, take, cancelled);
        return arrived;
    }

    static String idle(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            expect(HEARTBEAT_SECONDS, connection.getHeartbeat());
            CountDownLatch closed = new CountDownLatch(1);
            connection.addShutdownListener(cause -> closed.countDown());
            expect(false, closed.await(3 * HEARTBEAT_SECONDS + 1, TimeUnit.SECONDS));
            connection.createChannel().queueDeclare().getQueue();
            return "open";
        }
    }

    static String transactions(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            Channel other = connection.createChannel();
            String queue = channel.queueDeclare().getQueue();
            channel.txSelect();
            channel.basicPublish("", queue, null, bytes("rolled back"));
            channel.txRollback();
            channel.basicPublish("", queue, null, bytes("kept"));
            expect(0L, other.messageCount(queue));
            channel.txCommit();
            expect(1L, other.messageCount(queue));
            GetResponse got = channel.basicGet(queue, false);
            expect("kept", new String(got.getBody(), StandardCharsets.UTF_8));
            channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
            channel.txRollback();
            channel.basicRecover(true);
            channel.txCommit();
            got = channel.basicGet(queue, false);
            expect(true, got.getEnvelope().isRedeliver());
            channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
            channel.txCommit();
            channel.close();
            expect(0L, other.messageCount(queue));
            return "rolled back and committed";
        }
    }

    static String prefetch(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String queue = channel.queueDeclare().getQueue();
            for (int i = 1; i <= 5; i++) {
                channel.basicPublish("", queue, null, bytes("m" + i));
            }
            channel.basicQos(2);
            BlockingQueue<Delivery> arrived = consume(channel, queue, false);
            List<String> seen = new ArrayList<>(List.of(body(next(arrived))));
            Delivery second = next(arrived);
            seen.add(body(second));
            expect(3, channel.queueDeclarePassive(queue).getMessageCount());
            expect(0, arrived.size());
            channel.basicAck(second.getEnvelope().getDeliveryTag(), true);
            seen.add(body(next(arrived)));
            seen.add(body(next(arrived)));
            expect(1, channel.queueDeclarePassive(queue).getMessageCount());
            return String.join(",", seen);
        }
    }

    static String queueTtl(ConnectionFactory factory) throws Exception {
        return expired(factory, Map.of("x-message-ttl", 100), null);
    }

    static String messageTtl(ConnectionFactory factory) throws Exception {
        return expired(factory, Map.of(), "100");
    }

    @SuppressWarnings("unchecked")
    static String expired(ConnectionFactory factory, Map<String, Object> ttl, String expiration) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String exchange = fresh();
            channel.exchangeDeclare(exchange, "fanout", false, true, null);
            String dead = channel.queueDeclare().getQueue();
            channel.queueBind(dead, exchange, "");
            Map<String, Object> words = new java.util.HashMap<>(ttl);
            words.put("x-dead-letter-exchange", exchange);
            String queue = fresh();
            channel.queueDeclare(queue, false, true, true, words);
            BlockingQueue<Delivery> arrived = consume(channel, dead, true);
            BasicProperties properties = new BasicProperties.Builder().expiration(expiration).build();
            channel.basicPublish("", queue, properties, bytes("late"));
            Delivery delivery = next(arrived);
            Map<String, Object> headers = delivery.getProperties().getHeaders();
            List<Map<String, Object>> deaths = (List<Map<String, Object>>) headers.get("x-death");
            Map<String, Object> death = deaths.get(0);
            expect(1L, (Long) death.get("count"));
            expect("expired", death.get("reason").toString());
            expect(queue, death.get("queue").toString());
            expect("", death.get("exchange").toString());
            expect(queue, ((List<?>) death.get("routing-keys")).get(0).toString());
            java.util.Date.class.cast(death.get("time"));
            expect(expiration != null, death.containsKey("original-expiration"));
            expect(queue, headers.get("x-first-death-queue").toString());
            expect(queue, delivery.getEnvelope().getRoutingKey());
            return body(delivery) + " count 1 expired";
        }
    }

    static String confirms(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String queue = channel.queueDeclare().getQueue();
            channel.confirmSelect();
            BlockingQueue<Long> confirmed = new LinkedBlockingQueue<>();
            channel.addConfirmListener((tag, multiple) -> confirmed.add(tag), (tag, multiple) -> confirmed.add(-tag));
            for (int i = 0; i < 100; i++) {
                channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("m" + i));
            }
            channel.waitForConfirmsOrDie(1000 * PATIENCE_SECONDS);
            expect(100L, channel.messageCount(queue));
            expect(true, confirmed.stream().allMatch(tag -> tag > 0));
            return "100";
        }
    }

    static String returns(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            channel.confirmSelect();
            BlockingQueue<Object> said = new LinkedBlockingQueue<>();
            channel.addReturnListener((Return returned) -> said.add(returned.getReplyCode() + " " + returned.getReplyText()));
            channel.addConfirmListener((tag, multiple) -> said.add("ack " + tag), (tag, multiple) -> said.add("nack " + tag));
            channel.basicPublish("", fresh(), true, null, bytes("nowhere"));
            return next(said) + ", " + next(said);
        }
    }

    static String cancel(ConnectionFactory factory) throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String queue = channel.queueDeclare(fresh(), false, false, false, null).getQueue();
            BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
            DeliverCallback take = (tag, delivery) -> { };
            String consumer = channel.basicConsume(queue, true, take, (String tag) -> cancelled.add(tag));
            connection.createChannel().queueDelete(queue);
            expect(consumer, next(cancelled));
            expect(true, channel.isOpen());
            return "told";
        }
    }

    /** The server closes the connection; the client makes the exclusive queue, binding and consumer again. */
    static String recovery(ConnectionFactory factory) throws Exception {
        String name = fresh();
        try (Connection connection = factory.newConnection(name)) {
            CountDownLatch recovered = new CountDownLatch(1);
            ((RecoverableConnection) connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable which) {
                    recovered.countDown();
                }

                @Override
                public void handleRecoveryStarted(Recoverable which) {
                }
            });
            Channel channel = connection.createChannel();
            channel.exchangeDeclare(name, "topic", false, true, null);
            String queue = channel.queueDeclare().getQueue();
            channel.queueBind(queue, name, "a.*");
            BlockingQueue<Delivery> arrived = consume(channel, queue, true);
            channel.basicPublish(name, "a.b", null, bytes("before"));
            expect("before", body(next(arrived)));
            kill(name);
            expect(true, recovered.await(PATIENCE_SECONDS, TimeUnit.SECONDS));
            channel.basicPublish(name, "a.c", null, bytes("after"));
            return body(next(arrived));
        }
    }

    /** Deletes the connection of that client's name by the management API. */
    static void kill(String name) throws Exception {
        HttpClient http = HttpClient.newHttpClient();
        String known = "\"name\":\"(127\\.0\\.0\\.1:\\d+ -> 127\\.0\\.0\\.1:\\d+)\"";
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (System.nanoTime() < deadline) {
            String all = http.send(request("/api/connections").GET().build(), HttpResponse.BodyHandlers.ofString()).body();
            java.util.regex.Matcher found = java.util.regex.Pattern.compile(known).matcher(all);
            while (found.find()) {
                String path = "/api/connections/" + URLEncoder.encode(found.group(1), StandardCharsets.UTF_8).replace("+", "%20");
                HttpResponse<String> one = http.send(request(path).GET().build(), HttpResponse.BodyHandlers.ofString());
                if (one.body().contains(name)) {
                    HttpRequest delete = request(path).header("X-Reason", "scene").DELETE().build();
                    expect(204, http.send(delete, HttpResponse.BodyHandlers.ofString()).statusCode());
                    return;
                }
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException("the management API does not list " + name);
    }

    static HttpRequest.Builder request(String path) {
        String user = Base64.getEncoder().encodeToString(bytes("guest:guest"));
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + managementPort + path))
                .header("Authorization", "Basic " + user);
    }
}
