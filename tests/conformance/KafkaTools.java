import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's own tools in one JVM, each in a thread of its own. A line is a standard input, a class and its arguments,
 *  in base64 and apart by spaces; the answer is the exit status and, in base64, what the tool printed on the standard
 *  output, on the standard error, and on both in their order. A tool that exits is left where
 *  it stands: whatever it would do if exiting were an exception is nothing that it does by itself. */
public class KafkaTools {
    private static volatile CompletableFuture<Integer> status;

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(new Both(printed, out), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Both(printed, err), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8)).toArray(String[]::new);
            for (ByteArrayOutputStream each : new ByteArrayOutputStream[] {printed, out, err}) {
                each.reset();
            }
            System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
            status = new CompletableFuture<>();
            Thread tool = new Thread(() -> run(words));
            tool.setDaemon(true);
            tool.start();
            int code = status.get();
            System.out.flush();
            System.err.flush();
            answers.println(code + " " + encoded(out) + " " + encoded(err) + " " + encoded(printed));
            answers.flush();
        }
        System.exit(0);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    private static void run(String[] words) {
        CompletableFuture<Integer> own = status;
        try {
            Class.forName(words[1]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 2, words.length));
            own.complete(0);
        } catch (Throwable error) {
            Throwable thrown = error instanceof InvocationTargetException ? error.getCause() : error;
            System.err.print("Exception in thread \"main\" ");
            thrown.printStackTrace();
            own.complete(1);
        }
    }

    private static void exit(int code) {
        status.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    /** What is written goes to the first stream and to the second. */
    private static class Both extends FilterOutputStream {
        private final OutputStream second;

        Both(OutputStream first, OutputStream second) {
            super(first);
            this.second = second;
        }

        @Override
        public synchronized void write(int b) throws IOException {
            out.write(b);
            second.write(b);
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int length) throws IOException {
            out.write(bytes, from, length);
            second.write(bytes, from, length);
        }
    }
}
