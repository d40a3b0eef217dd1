import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's own tools in one JVM: a line is a class and its arguments, base64 and space-separated; the answer is
 *  the exit status and what the tool printed. */
public class ToolRunner {
    private static final class Exited extends RuntimeException {
        final int status;

        Exited(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream((OutputStream) printed, true, StandardCharsets.UTF_8);
        System.setOut(capture);
        System.setErr(capture);
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Exited(status); });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split(" "))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8)).toArray(String[]::new);
            printed.reset();
            int status = 0;
            try {
                Class.forName(words[0]).getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (java.lang.reflect.InvocationTargetException error) {
                if (error.getCause() instanceof Exited) {
                    status = ((Exited) error.getCause()).status;
                } else {
                    error.getCause().printStackTrace(capture);
                    status = 1;
                }
            }
            capture.flush();
            answers.println(status + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }
}
