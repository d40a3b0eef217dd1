import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

/**
 * Reads record batches with Kafka's own classes: a batch in hex on each line in; out, apart by tabs, its records in
 * words, and the same records written by Kafka with magic 2, 1 and 0 ("-" where that magic cannot hold them).
 */
public class RecordsOracle {
    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }

    static String rewritten(MutableRecordBatch batch, byte magic) {
        CompressionType type = batch.compressionType();
        boolean old = magic < 2;
        boolean headers = false;
        for (Record record : batch) {
            headers |= record.headers().length > 0;
        }
        if (old && (type == CompressionType.ZSTD || headers || batch.isControlBatch())) {
            return "-";
        }
        TimestampType stamps = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : batch.timestampType();
        long appended = stamps == TimestampType.LOG_APPEND_TIME ? batch.maxTimestamp() : -1L;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic,
            Compression.of(type).build(), stamps, batch.baseOffset(), appended, old ? -1 : batch.producerId(),
            old ? -1 : batch.producerEpoch(), old ? -1 : batch.baseSequence(), !old && batch.isTransactional(),
            !old && batch.isControlBatch(), old ? -1 : batch.partitionLeaderEpoch());
        for (Record record : batch) {
            long timestamp = magic == 0 ? -1 : record.timestamp();
            if (batch.isControlBatch()) {
                builder.appendControlRecordWithOffset(record.offset(),
                    new org.apache.kafka.common.record.SimpleRecord(timestamp, record.key(), record.value()));
            } else if (old) {
                builder.appendWithOffset(record.offset(), timestamp, record.key(), record.value());
            } else {
                builder.appendWithOffset(record.offset(), timestamp, record.key(), record.value(), record.headers());
            }
        }
        return hex(builder.build().buffer());
    }

    static String answer(String line) {
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(line.trim()));
        StringBuilder words = new StringBuilder();
        MutableRecordBatch last = null;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            last = batch;
            for (Record record : batch) {
                words.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    words.append(' ').append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))))
                        .append('=').append(hex(value == null ? null : ByteBuffer.wrap(value)));
                }
                words.append(';');
            }
        }
        return words + "\t" + rewritten(last, (byte) 2) + "\t" + rewritten(last, (byte) 1) + "\t"
            + rewritten(last, (byte) 0);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line);
            } catch (Throwable e) {
                answer = "!" + e + Arrays.toString(e.getStackTrace());
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }
}
