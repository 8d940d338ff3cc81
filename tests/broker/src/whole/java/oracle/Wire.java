package oracle;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Requests as clients send them, by number and field name: these did not change from 4.9 to 5.5, the Java classes of their fields did. */
final class Wire implements AutoCloseable {
    static final int PULL = 11;
    static final int QUERY_BY_KEY = 12;
    static final int UPDATE_TOPIC = 17;
    static final int ALL_TOPICS = 21;
    static final int MAX_OFFSET = 30;
    static final int MIN_OFFSET = 31;
    static final int VIEW_BY_ID = 33;
    static final int CLUSTER = 106;
    static final int SUCCESS = 0;
    private static final int TIMEOUT_MILLIS = 20_000;

    private final String address;
    private final NettyRemotingClient client;

    Wire(String address) {
        this.address = address;
        NettyClientConfig config = new NettyClientConfig();
        config.setClientCallbackExecutorThreads(1);
        config.setClientWorkerThreads(1);
        client = new NettyRemotingClient(config);
        client.start();
    }

    /** The answer, whatever its code is. Fields: name, value, name, value… */
    RemotingCommand ask(int code, Object... fields) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        for (int i = 0; i < fields.length; i += 2) {
            request.addExtField((String) fields[i], String.valueOf(fields[i + 1]));
        }
        return client.invokeSync(address, request, TIMEOUT_MILLIS);
    }

    /** The answer of a request that has to succeed. */
    RemotingCommand demand(int code, Object... fields) throws Exception {
        RemotingCommand answer = ask(code, fields);
        if (answer.getCode() != SUCCESS) {
            throw new IllegalStateException("request " + code + " " + List.of(fields) + ": " + remark(answer));
        }
        return answer;
    }

    long offset(int code, String topic, int queue) throws Exception {
        return Long.parseLong(demand(code, "topic", topic, "queueId", queue, "committed", true).getExtFields().get("offset"));
    }

    /** Attributes by topic, as the broker has them. */
    @SuppressWarnings("unchecked")
    Map<String, Map<String, Object>> topics() throws Exception {
        return (Map<String, Map<String, Object>>) ((Map<String, Object>) Json.parse(text(demand(ALL_TOPICS)))).get("topicConfigTable");
    }

    static String text(RemotingCommand answer) {
        return new String(answer.getBody(), StandardCharsets.UTF_8);
    }

    static String remark(RemotingCommand answer) {
        return "code " + answer.getCode() + " " + answer.getRemark();
    }

    /** The messages of an answer, bodies as they are stored. */
    static List<MessageExt> messages(RemotingCommand answer) {
        List<MessageExt> found = new ArrayList<>();
        if (answer.getCode() == SUCCESS && answer.getBody() != null) {
            ByteBuffer body = ByteBuffer.wrap(answer.getBody());
            for (MessageExt m; body.hasRemaining() && (m = MessageDecoder.decode(body, true, false)) != null; ) {
                found.add(m);
            }
        }
        return found;
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
