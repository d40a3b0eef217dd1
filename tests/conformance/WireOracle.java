import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads messages with Kafka's own classes: lines of "name version hex" in, lines of "hex of the same message written
 * again, tab, its JSON" out. A line that begins with "!" says what Kafka threw.
 */
public class WireOracle {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.", "kafka.internals.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
    };

    static Class<?> find(String name) throws ClassNotFoundException {
        for (String suffix : new String[] {"", "Data"}) {
            for (String prefix : PACKAGES) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException e) {
                    // in the next package, then
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    static String answer(String line) throws Throwable {
        String[] words = line.split(" ", 3);
        short version = Short.parseShort(words[1]);
        ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(words[2].trim()));
        Class<?> type = find(words[0]);
        Message message;
        try {
            message = (Message) type.getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(frame), version);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
        if (frame.hasRemaining()) {
            return "!" + frame.remaining() + " bytes are left";
        }
        ByteBuffer written = MessageUtil.toByteBuffer(message, version);
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        JsonNode json = (JsonNode) Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class).invoke(null, message, version);
        return HexFormat.of().formatHex(bytes) + "\t" + json;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line);
            } catch (Throwable e) {
                answer = "!" + e;
            }
            out.println(answer.replace('\n', ' '));
        }
        out.flush();
    }
}
