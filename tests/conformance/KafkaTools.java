import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's own tools in one JVM, each in a thread of its own. A line is a class and its arguments, in base64 and
 *  apart by spaces; the answer is the exit status and, in base64, what the tool printed. A tool that exits is left where
 *  it stands: whatever it would do if exiting were an exception is nothing that it does by itself. */
public class KafkaTools {
    private static volatile CompletableFuture<Integer> status;

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" "))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8)).toArray(String[]::new);
            printed.reset();
            status = new CompletableFuture<>();
            Thread tool = new Thread(() -> run(words, capture));
            tool.setDaemon(true);
            tool.start();
            int code = status.get();
            capture.flush();
            answers.println(code + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
        System.exit(0);
    }

    private static void run(String[] words, PrintStream capture) {
        CompletableFuture<Integer> own = status;
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            own.complete(0);
        } catch (Throwable error) {
            error.printStackTrace(capture);
            own.complete(1);
        }
    }

    private static void exit(int code) {
        status.complete(code);
        while (true) {
            LockSupport.park();
        }
    }
}
