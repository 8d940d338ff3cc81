package oracle;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Random;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * A name server, a broker, a producer that sends without an end and a consumer, in this JVM: plain messages, delayed and
 * timed ones, with keys and without, and if the job says so, rows of a
 * compacted topic (`table`) and transactions (`transactions`). argv: a file with the job as JSON, a file for the acknowledged messages, one JSON
 * line each. Ends cleanly when its input ends, or by SIGKILL.
 */
public final class Busy {
    private static final int FAILED = 9;
    private static final int DELAYED_EVERY = 11;
    private static final int TIMED_EVERY = 13;
    private static final int LONGEST_BODY = 3000;
    private static final int LONGEST_DELAY_SECONDS = 20;
    private static final int PERSIST_MILLIS = 500;
    private static final int TIMEOUT_MILLIS = 20_000;
    private static final int MOST_REFUSED = 200;
    private static final long NANOS = 1_000_000_000L;
    private static final String TRANSACTIONS = "transactions";
    private static final int TRANSACTION_EVERY = 5;
    private static final String TABLE = "table";
    private static final int ROWS = 40;
    private static final int LONGEST_ROW = 200;
    private static final List<String> TOPICS = List.of("orders", "events", Sends.DELAYED_TOPIC);
    private static final int QUEUES = 3;

    private static volatile boolean ending;

    private Busy() {
    }

    public static void main(String[] args) {
        try {
            Job job = Batch.parse(Files.readString(Paths.get(args[0])));
            run(job, Paths.get(args[1]));
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(FAILED); // threads of brokers and clients would keep the JVM alive
        }
        System.exit(0);
    }

    private static void run(Job job, Path acknowledged) throws Exception {
        BrokerController controller = Whole.up(job);
        String nameServer = Whole.nameServer(job);
        try (Wire broker = new Wire(controller.getBrokerAddr())) {
            for (String topic : TOPICS) {
                new Pulls(broker, false, line -> { }).makeKnown(topic, QUEUES, "");
            }
            if (job.flag(TABLE)) {
                new Pulls(broker, false, line -> { }).makeKnown(TABLE, QUEUES, "+cleanup.policy=COMPACTION");
            }
        }
        DefaultMQPushConsumer consumer = consumer(nameServer);
        DefaultMQProducer producer = new DefaultMQProducer("busy_producer");
        producer.setNamesrvAddr(nameServer);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(TIMEOUT_MILLIS);
        producer.start();
        for (String topic : TOPICS) {
            Sends.eventually(() -> producer.fetchPublishMessageQueues(topic));
        }
        if (job.flag(TABLE)) {
            Sends.eventually(() -> producer.fetchPublishMessageQueues(TABLE));
        }
        TransactionMQProducer halves = new TransactionMQProducer("busy_transactions");
        if (job.flag(TRANSACTIONS)) {
            halves.setNamesrvAddr(nameServer);
            halves.setVipChannelEnabled(false);
            halves.setSendMsgTimeout(TIMEOUT_MILLIS);
            halves.setTransactionListener(new Answers());
            halves.start();
        }
        Thread sender = new Thread(() -> send(producer, halves, job, acknowledged), "sender");
        sender.setDaemon(true);
        sender.start();
        while (System.in.read() >= 0) { // until the one who started it closes its end
        }
        ending = true; // a client that is interrupted while it sends can hide the interruption in an exception of its own
        sender.interrupt();
        sender.join();
        producer.shutdown();
        consumer.shutdown();
    }

    private static DefaultMQPushConsumer consumer(String nameServer) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("busy_consumer");
        consumer.setNamesrvAddr(nameServer);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(PERSIST_MILLIS);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        for (String topic : TOPICS) {
            consumer.subscribe(topic, "*");
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        return consumer;
    }

    /** Of three transactions one is committed, one rolled back, and one gets no answer, also when the broker asks for it. */
    private static final class Answers implements TransactionListener {
        private static final List<LocalTransactionState> ANSWERS = List.of(LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.UNKNOW);

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object number) {
            return ANSWERS.get((Integer) number / TRANSACTION_EVERY % ANSWERS.size());
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }

    private static void send(DefaultMQProducer producer, TransactionMQProducer halves, Job job, Path acknowledged) {
        Random random = new Random(job.num("seed", 1));
        long pause = NANOS / job.num("rate", 1);
        long next = System.nanoTime();
        try (PrintStream out = new PrintStream(acknowledged.toFile(), StandardCharsets.UTF_8)) {
            int refused = 0;
            for (int number = 0; !ending; number++) {
                SendResult sent = null;
                try {
                    if (job.flag(TRANSACTIONS) && number % TRANSACTION_EVERY == 0) {
                        halves.sendMessageInTransaction(new Message(TOPICS.get(0), "tag", "half-" + number, new byte[100]), number);
                    }
                    sent = producer.send(job.flag(TABLE) && number % 2 == 0 ? row(random) : message(number, random));
                    refused = 0;
                } catch (MQBrokerException | MQClientException | RemotingException e) {
                    if (++refused > MOST_REFUSED) { // a broker that just became the master refuses some
                        throw e;
                    }
                }
                if (sent != null && sent.getSendStatus() == SendStatus.SEND_OK) {
                    out.println(Json.write(Json.map("topic", sent.getMessageQueue().getTopic(), "queue", sent.getMessageQueue().getQueueId(),
                        "queueOffset", sent.getQueueOffset(),
                        "physicalOffset", MessageDecoder.decodeMessageId(sent.getOffsetMsgId()).getOffset())));
                    out.flush();
                }
                next += pause;
                Thread.sleep(Math.max(0, (next - System.nanoTime()) / 1_000_000));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(FAILED); // the test sees that the process is gone
        }
    }

    /** A new value of one of the keys. */
    private static Message row(Random random) {
        byte[] value = new byte[1 + random.nextInt(LONGEST_ROW)];
        random.nextBytes(value);
        return new Message(TABLE, "tag", "row-" + random.nextInt(ROWS), value);
    }

    private static Message message(int number, Random random) {
        byte[] body = new byte[1 + random.nextInt(LONGEST_BODY)];
        random.nextBytes(body);
        boolean delayed = number % DELAYED_EVERY == 0;
        boolean timed = number % TIMED_EVERY == 0;
        String topic = delayed || timed ? Sends.DELAYED_TOPIC : TOPICS.get(random.nextInt(2));
        StringBuilder keys = new StringBuilder();
        for (int each = 0; each < number % 3; each++) {
            keys.append(each == 0 ? "" : " ").append("key-").append(number).append('-').append(each);
        }
        Message message = new Message(topic, "tag" + random.nextInt(5), keys.toString(), body);
        if (delayed) {
            message.setDelayTimeLevel(1 + random.nextInt(4));
        } else if (timed) { // the client of 4.9 has no name for it, and its broker stores a plain message
            long due = System.currentTimeMillis() + 1000L * (2 + random.nextInt(LONGEST_DELAY_SECONDS));
            message.getProperties().put("TIMER_DELIVER_MS", Long.toString(due));
        }
        return message;
    }
}
