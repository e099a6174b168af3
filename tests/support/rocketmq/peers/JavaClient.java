// The Java SDK as a producer, a simple consumer and a push consumer: prints a line for each step that went well.
// Arguments: endpoints, topic, group, the types to send (NORMAL, FIFO, DELAY, TRANSACTION, LITE, PRIORITY).

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class JavaClient {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        String group = arguments[2];
        List<String> types = Arrays.asList(arguments[3].split(","));
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
            .setTransactionChecker(view -> TransactionResolution.COMMIT).build()) {
            for (String type : types) {
                send(producer, topic, type);
                System.out.println("sent " + type);
            }
        }
        FilterExpression all = FilterExpression.SUB_ALL;
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Collections.singletonMap(topic, all)).build()) {
            for (int left = types.size(); left > 0; ) {
                for (MessageView view : consumer.receive(16, Duration.ofSeconds(20))) {
                    consumer.ack(view);
                    System.out.println("received " + StandardCharsets.UTF_8.decode(view.getBody()));
                    left--;
                }
            }
        }
        CountDownLatch pushed = new CountDownLatch(types.size());
        try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group + "-pushed").setSubscriptionExpressions(Collections.singletonMap(topic, all))
            .setMessageListener(view -> {
                System.out.println("pushed " + StandardCharsets.UTF_8.decode(view.getBody()));
                pushed.countDown();
                return ConsumeResult.SUCCESS;
            }).build()) {
            pushed.await(60, TimeUnit.SECONDS);
        }
        System.out.println("done");
        System.exit(0);
    }

    static void send(Producer producer, String topic, String type) throws Exception {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(topic).setTag("a").setKeys("k")
            .addProperty("p", "v").setBody(type.getBytes(StandardCharsets.UTF_8));
        if (type.equals("FIFO")) {
            builder.setMessageGroup("g");
        } else if (type.equals("DELAY")) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + 1000);
        } else if (type.equals("TRANSACTION")) {
            Transaction transaction = producer.beginTransaction();
            producer.send(builder.build(), transaction);
            transaction.commit();
            return;
        }
        producer.send(builder.build());
    }
}
