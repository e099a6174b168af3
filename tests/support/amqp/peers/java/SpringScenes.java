// Scenes of Spring AMQP, one thread each.  Arguments: the AMQP port, and a port that is not used.
// Each prints one line: its name, "ok" or "fail", and what it saw.

import com.rabbitmq.client.Channel;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.aopalliance.aop.Advice;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareMessageListener;
import org.springframework.amqp.rabbit.retry.MessageRecoverer;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;

public class SpringScenes {
    interface Scene {
        String play(Site site) throws Exception;
    }

    interface Container {
        AbstractMessageListenerContainer of(CachingConnectionFactory factory);
    }

    /** Connections of one scene, with queues of its own. */
    record Site(CachingConnectionFactory factory, RabbitAdmin admin, RabbitTemplate template, Container container) {
    }

    static final long PATIENCE_SECONDS = 20;
    static int port;

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        for (String kind : List.of("simple", "direct")) {
            Container container = kind.equals("simple")
                    ? SimpleMessageListenerContainer::new : DirectMessageListenerContainer::new;
            threads.add(begin("ack-" + kind, container, SpringScenes::ack));
            threads.add(begin("manual_ack-" + kind, container, SpringScenes::manualAck));
            threads.add(begin("reject-" + kind, container, SpringScenes::reject));
            threads.add(begin("republish-" + kind, container, SpringScenes::republish));
            threads.add(begin("reply-" + kind, container, SpringScenes::reply));
        }
        threads.add(begin("admin", null, SpringScenes::declarations));
        threads.add(begin("confirms", null, SpringScenes::confirms));
        threads.add(begin("returns", null, SpringScenes::returns));
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    static Thread begin(String name, Container container, Scene scene) {
        Thread thread = new Thread(() -> {
            CachingConnectionFactory factory = new CachingConnectionFactory("127.0.0.1", port);
            factory.setPublisherConfirmType(ConfirmType.CORRELATED);
            factory.setPublisherReturns(true);
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setMandatory(true);
            template.setReplyTimeout(1000 * PATIENCE_SECONDS);
            template.setReceiveTimeout(1000 * PATIENCE_SECONDS);
            String said;
            try {
                said = " ok " + scene.play(new Site(factory, new RabbitAdmin(factory), template, container));
            } catch (Throwable problem) {
                said = " fail " + problem;
            } finally {
                factory.destroy();
            }
            System.out.println(name + said.replace('\n', ' '));
        });
        thread.start();
        return thread;
    }

    static String fresh() {
        return "spring-" + UUID.randomUUID();
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

    static String body(Message message) {
        if (message == null) {
            throw new IllegalStateException("no message");
        }
        return new String(message.getBody());
    }

    static int ready(Site site, String queue) {
        Properties found = site.admin().getQueueProperties(queue);
        return ((Number) found.get(RabbitAdmin.QUEUE_MESSAGE_COUNT)).intValue();
    }

    static String declared(Site site) {
        return site.admin().declareQueue(QueueBuilder.nonDurable(fresh()).build());
    }

    static AbstractMessageListenerContainer listen(
            Site site, String queue, AcknowledgeMode mode, MessageListener listener, Advice... advice) {
        AbstractMessageListenerContainer container = site.container().of(site.factory());
        container.setQueueNames(queue);
        container.setAcknowledgeMode(mode);
        container.setMessageListener(listener);
        container.setAdviceChain(advice);
        container.setShutdownTimeout(1000 * PATIENCE_SECONDS);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    static String ack(Site site) throws Exception {
        String queue = declared(site);
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        AbstractMessageListenerContainer container =
                listen(site, queue, AcknowledgeMode.AUTO, message -> arrived.add(body(message)));
        List<String> seen = new ArrayList<>();
        for (int i = 1; i <= 3; i++) {
            site.template().convertAndSend(queue, "m" + i);
            seen.add(next(arrived));
        }
        container.stop();
        expect(0, ready(site, queue));
        return String.join(",", seen);
    }

    /** The first time a message comes it is returned to the queue, the second time it is settled. */
    static String manualAck(Site site) throws Exception {
        String queue = declared(site);
        BlockingQueue<Boolean> redelivered = new LinkedBlockingQueue<>();
        ChannelAwareMessageListener listener = (Message message, Channel channel) -> {
            long tag = message.getMessageProperties().getDeliveryTag();
            boolean again = message.getMessageProperties().isRedelivered();
            if (again) {
                channel.basicAck(tag, false);
            } else {
                channel.basicNack(tag, false, true);
            }
            redelivered.add(again);
        };
        AbstractMessageListenerContainer container = listen(site, queue, AcknowledgeMode.MANUAL, listener);
        site.template().convertAndSend(queue, "m");
        String seen = next(redelivered) + "," + next(redelivered);
        container.stop();
        expect(0, ready(site, queue));
        return seen;
    }

    /** Listens with a listener that always fails; how often it was tried. */
    static AtomicInteger failing(Site site, String queue, MessageRecoverer recoverer) {
        AtomicInteger tries = new AtomicInteger();
        Advice retry = RetryInterceptorBuilder.stateless()
                .maxAttempts(3).backOffOptions(10, 1, 10).recoverer(recoverer).build();
        MessageListener listener = message -> {
            tries.incrementAndGet();
            throw new IllegalArgumentException("not today");
        };
        listen(site, queue, AcknowledgeMode.AUTO, listener, retry);
        return tries;
    }

    static String reject(Site site) throws Exception {
        String exchange = fresh();
        site.admin().declareExchange(new DirectExchange(exchange, false, true));
        String dead = declared(site);
        site.admin().declareBinding(new Binding(dead, Binding.DestinationType.QUEUE, exchange, "dead", null));
        Queue queue = QueueBuilder.nonDurable(fresh()).deadLetterExchange(exchange).deadLetterRoutingKey("dead").build();
        site.admin().declareQueue(queue);
        AtomicInteger tries = failing(site, queue.getName(), new RejectAndDontRequeueRecoverer());
        site.template().convertAndSend(queue.getName(), "bad");
        Message message = site.template().receive(dead);
        String seen = body(message);
        var death = message.getMessageProperties().getXDeathHeader().get(0);
        expect(1L, (Long) death.get("count"));
        expect(queue.getName(), death.get("queue"));
        return seen + " " + death.get("reason") + " after " + tries.get();
    }

    static String republish(Site site) throws Exception {
        String queue = declared(site);
        String errors = declared(site);
        RepublishMessageRecoverer recoverer = new RepublishMessageRecoverer(site.template(), "", errors);
        AtomicInteger tries = failing(site, queue, recoverer);
        site.template().convertAndSend(queue, "bad");
        Message message = site.template().receive(errors);
        String seen = body(message);
        expect(queue, message.getMessageProperties().getHeader("x-original-routingKey"));
        // a string of more than 1,024 bytes stays the client's LongString
        Object trace = message.getMessageProperties().getHeader(RepublishMessageRecoverer.X_EXCEPTION_STACKTRACE);
        expect(true, trace.toString().contains("not today"));
        return seen + " after " + tries.get();
    }

    /** Asks by direct reply-to, whose queue is amq.rabbitmq.reply-to. */
    static String reply(Site site) throws Exception {
        String queue = declared(site);
        BlockingQueue<String> answerTo = new LinkedBlockingQueue<>();
        RabbitTemplate answering = new RabbitTemplate(site.factory());
        listen(site, queue, AcknowledgeMode.AUTO, message -> {
            answerTo.add(message.getMessageProperties().getReplyTo());
            String asked = body(message);
            answering.convertAndSend("", message.getMessageProperties().getReplyTo(), asked.toUpperCase(), answer -> {
                answer.getMessageProperties().setCorrelationId(message.getMessageProperties().getCorrelationId());
                return answer;
            });
        });
        String seen = site.template().convertSendAndReceive(queue, "a") + "," + site.template().convertSendAndReceive(queue, "b");
        expect(true, next(answerTo).startsWith("amq.rabbitmq.reply-to."));
        return seen;
    }

    static String declarations(Site site) throws Exception {
        TopicExchange exchange = new TopicExchange(fresh(), true, false);
        Queue queue = QueueBuilder.durable(fresh()).maxLength(2L).quorum().build();
        site.admin().declareExchange(exchange);
        site.admin().declareQueue(queue);
        site.admin().declareBinding(BindingBuilder.bind(queue).to(exchange).with("a.#"));
        site.template().invoke(operations -> {
            operations.convertAndSend(exchange.getName(), "a.b.c", "routed");
            return operations.waitForConfirms(1000 * PATIENCE_SECONDS);
        });
        String seen = body(site.template().receive(queue.getName()));
        expect(0, ready(site, queue.getName()));
        site.admin().purgeQueue(queue.getName());
        expect(true, site.admin().deleteQueue(queue.getName()));
        expect(true, site.admin().deleteExchange(exchange.getName()));
        expect(true, site.admin().getQueueProperties(queue.getName()) == null);
        return seen;
    }

    static String confirms(Site site) throws Exception {
        String queue = declared(site);
        List<CorrelationData> sent = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            CorrelationData data = new CorrelationData("m" + i);
            site.template().convertAndSend("", queue, "m" + i, data);
            sent.add(data);
        }
        for (CorrelationData data : sent) {
            expect(true, data.getFuture().get(PATIENCE_SECONDS, TimeUnit.SECONDS).isAck());
        }
        expect(50, ready(site, queue));
        CorrelationData data = new CorrelationData("to no exchange");
        site.template().convertAndSend(fresh(), "", "lost", data);
        expect(false, data.getFuture().get(PATIENCE_SECONDS, TimeUnit.SECONDS).isAck());
        return "50, and none by an exchange that is not there";
    }

    static String returns(Site site) throws Exception {
        CorrelationData data = new CorrelationData("nowhere");
        site.template().convertAndSend("", fresh(), "nowhere", data);
        expect(true, data.getFuture().get(PATIENCE_SECONDS, TimeUnit.SECONDS).isAck());
        return data.getReturned().getReplyCode() + " " + data.getReturned().getReplyText();
    }
}
