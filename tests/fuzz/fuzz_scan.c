/* libFuzzer's target for barnabas/wire/_scan.h: `make fuzz`.
 *
 * An input is settings and records. They are scanned in one piece and in pieces whose sizes the input says, each in
 * memory of its exact size, so that AddressSanitizer sees a byte too many; both ways have to find the same.
 */
#include <stdlib.h>
#include <string.h>

#include "../../src/barnabas/wire/_scan.h"

enum { SETTINGS = 32, CAPACITY = 3 };

static Scan *begun(const uint8_t *settings) {
    Scan *scan = calloc(1, sizeof(Scan) + CAPACITY * sizeof(RecordError));
    if (!scan) abort();
    memcpy(&scan->base_timestamp, settings, 8);
    memcpy(&scan->now, settings + 8, 8);
    scan->append_time = scan->now / 2;
    scan->before_max = (int64_t)settings[16] << settings[17] % 56;
    scan->after_max = (int64_t)settings[18] << settings[19] % 56;
    memcpy(&scan->record_count, settings + 20, 4);
    if (settings[24] & 1) scan->record_count = settings[20] % 8;
    scan->flags = settings[25];
    scan->max_timestamp = -1;
    scan->error_capacity = settings[26] % (CAPACITY + 1);
    return scan;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) return 0;
    Scan *whole = begun(data), *parts = begun(data);
    size_t left = size - SETTINGS, at = SETTINGS;
    uint8_t *records = malloc(left);
    if (left) memcpy(records, data + SETTINGS, left);
    feed(whole, records, left);
    finish(whole);
    free(records);
    for (int turn = 0; left; turn++) {
        size_t step = 1 + data[27 + turn % 5] % 9;
        if (step > left) step = left;
        uint8_t *piece = malloc(step);
        memcpy(piece, data + at, step);
        feed(parts, piece, step);
        free(piece);
        at += step;
        left -= step;
    }
    finish(parts);
    if (whole->fault != parts->fault || whole->error_count != parts->error_count || whole->records != parts->records ||
        whole->max_timestamp != parts->max_timestamp || whole->disordered != parts->disordered ||
        memcmp(whole->errors, parts->errors, CAPACITY * sizeof(RecordError)))
        abort();
    free(whole);
    free(parts);
    return 0;
}
