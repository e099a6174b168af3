import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * RocketMQ's own client: threads that send messages one by one, each after the answer to the one before.
 *
 * Arguments: name server, topic, threads, bytes of a body. For each line of seconds on the standard input it sends for so
 * long, and answers with a line: messages stored, nanoseconds, nanoseconds of this process's CPU, or "failed" and why.
 */
public final class OneByOneProducer {
    /** A message whose answer takes longer is sent again, and may be stored twice. */
    private static final int PATIENCE_MILLIS = 60_000;
    private final DefaultMQProducer producer = new DefaultMQProducer("bench_producer");
    private final AtomicReference<String> failure = new AtomicReference<>();
    private final String topic;
    private final int threads;
    private final byte[] body;

    private OneByOneProducer(String[] arguments) {
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(PATIENCE_MILLIS);
        producer.setMqClientApiTimeout(PATIENCE_MILLIS);
        topic = arguments[1];
        threads = Integer.parseInt(arguments[2]);
        body = new byte[Integer.parseInt(arguments[3])];
        java.util.Arrays.fill(body, (byte) 'x');
    }

    public static void main(String[] arguments) throws Exception {
        OneByOneProducer sending = new OneByOneProducer(arguments);
        sending.producer.start();
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            System.out.println(sending.measured(Double.parseDouble(line)));
        }
        sending.producer.shutdown();
        System.exit(0);
    }

    private String measured(double seconds) throws InterruptedException {
        long[] stored = new long[threads];
        long cpu = cpuNanos();
        long begun = System.nanoTime();
        long end = begun + (long) (seconds * 1e9);
        List<Thread> senders = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            int own = number;
            senders.add(new Thread(() -> stored[own] = sentUntil(end)));
        }
        senders.forEach(Thread::start);
        for (Thread sender : senders) {
            sender.join();
        }
        long took = System.nanoTime() - begun;
        long sum = 0;
        for (long each : stored) {
            sum += each;
        }
        String failed = failure.getAndSet(null);
        return failed == null ? sum + " " + took + " " + (cpuNanos() - cpu) : "failed " + failed;
    }

    private long sentUntil(long end) {
        long count = 0;
        try {
            while (System.nanoTime() < end) {
                SendStatus status = producer.send(new Message(topic, body)).getSendStatus();
                if (status != SendStatus.SEND_OK) {
                    throw new IllegalStateException("a message is " + status);
                }
                count++;
            }
        } catch (Exception error) {
            failure.compareAndSet(null, error.toString().replace('\n', ' '));
        }
        return count;
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
