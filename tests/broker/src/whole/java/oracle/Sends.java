package oracle;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * New messages from a producer, one for each topic that takes some, and each read back by a consumer: by queue, by key
 * and by id. One line per message.
 */
@SuppressWarnings("deprecation") // no other consumer of the client pulls, looks up by key and by id
final class Sends {
    private static final int PERM_WRITE = 2;
    private static final int PATIENCE = 300;
    private static final long PAUSE_MILLIS = 50;
    private static final int TIMEOUT_MILLIS = 10_000;
    static final String DELAYED_TOPIC = "delayed";

    private final DefaultMQProducer producer = new DefaultMQProducer("fresh_producer");
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("fresh_consumer");
    private final Consumer<Map<String, Object>> lines;

    private Sends(String nameServer, Consumer<Map<String, Object>> lines) {
        this.lines = lines;
        producer.setNamesrvAddr(nameServer);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(TIMEOUT_MILLIS);
        consumer.setNamesrvAddr(nameServer);
        consumer.setVipChannelEnabled(false);
    }

    static void all(String nameServer, Map<String, Map<String, Object>> topics, Consumer<Map<String, Object>> lines) throws Exception {
        Sends sends = new Sends(nameServer, lines);
        sends.producer.start();
        sends.consumer.start();
        for (Map.Entry<String, Map<String, Object>> topic : topics.entrySet()) {
            if (takesMessages(topic.getKey(), topic.getValue())) {
                sends.one(topic.getKey());
            }
        }
        sends.consumer.shutdown();
        sends.producer.shutdown();
    }

    /** Messages that fall due after so many seconds each, or by delay levels; their topic is made if it is not there. */
    static void delayed(String nameServer, Pulls pulls, List<?> seconds, List<?> levels, Consumer<Map<String, Object>> lines)
        throws Exception {
        pulls.makeKnown(DELAYED_TOPIC, 1, "");
        Sends sends = new Sends(nameServer, lines);
        sends.producer.start();
        eventually(() -> sends.producer.fetchPublishMessageQueues(DELAYED_TOPIC));
        for (Object after : seconds) {
            long due = System.currentTimeMillis() + 1000 * ((Number) after).longValue();
            sends.later("TIMER_DELIVER_MS", Long.toString(due)); // the client of 4.9 has no name for it
        }
        for (Object level : levels) {
            sends.later("DELAY", level.toString());
        }
        sends.producer.shutdown();
    }

    private void later(String property, String value) throws Exception {
        String key = "delayed-" + System.nanoTime();
        Message message = new Message(DELAYED_TOPIC, "delayed", key, (property + " " + value).getBytes(StandardCharsets.UTF_8));
        message.getProperties().put(property, value);
        SendResult sent = producer.send(message);
        lines.accept(Json.map("kind", "delayed", "key", key, property, value, "status", sent.getSendStatus(),
            "physicalOffset", MessageDecoder.decodeMessageId(sent.getOffsetMsgId()).getOffset()));
    }

    private static boolean takesMessages(String topic, Map<String, Object> attributes) {
        return Pulls.hidden(topic, attributes) == null && !topic.startsWith("%")
            && (number(attributes, "perm") & PERM_WRITE) != 0 && number(attributes, "writeQueueNums") > 0;
    }

    private static long number(Map<String, Object> attributes, String name) {
        return ((Number) attributes.get(name)).longValue();
    }

    private void one(String topic) throws Exception {
        String key = "fresh-" + System.nanoTime();
        Message message = new Message(topic, "fresh", key, ("new message of " + topic).getBytes(StandardCharsets.UTF_8));
        eventually(() -> producer.fetchPublishMessageQueues(topic)); // the route of a topic that became known a moment ago
        SendResult sent = producer.send(message);
        long physical = MessageDecoder.decodeMessageId(sent.getOffsetMsgId()).getOffset();
        lines.accept(Json.map("kind", "new", "topic", topic, "queue", sent.getMessageQueue().getQueueId(), "key", key,
            "status", sent.getSendStatus(), "queueOffset", sent.getQueueOffset(), "physicalOffset", physical,
            "byQueue", eventually(() -> offsets(consumer.pull(sent.getMessageQueue(), "*", sent.getQueueOffset(), 1).getMsgFoundList())),
            "byKey", eventually(() -> offsets(consumer.queryMessage(topic, key, 32, 0, Long.MAX_VALUE).getMessageList())),
            "byId", consumer.viewMessage(topic, sent.getOffsetMsgId()).getKeys()));
    }

    private static List<Long> offsets(List<MessageExt> messages) {
        return messages == null ? List.of() : messages.stream().map(MessageExt::getCommitLogOffset).toList();
    }

    /** The first answer that is not empty; queues and index follow the log a moment later. */
    static <T> List<T> eventually(Callable<List<T>> question) throws Exception {
        for (int tries = 0; tries < PATIENCE; tries++) {
            try {
                List<T> answer = question.call();
                if (answer != null && !answer.isEmpty()) {
                    return answer;
                }
            } catch (MQClientException e) { // how the client says that there is nothing
            }
            Thread.sleep(PAUSE_MILLIS);
        }
        return List.of();
    }
}
