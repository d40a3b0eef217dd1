/* Messages read and written by table. The table (`Plan`) is made of Kafka's schema by barnabas/wire/plans.py: structs,
 * each with its fields in order, and for each field where the object of its class keeps it.
 *
 * There is another codec in Python (codec.py), which says what is wrong with a message in words. So nothing here raises:
 * whatever is malformed, rare (tagged fields that no schema has) or of another type than the schema's is declined, and
 * the other codec takes the message from its beginning.
 */
#ifndef BARNABAS_CODEC_H
#define BARNABAS_CODEC_H

#include <stdlib.h>
#include <string.h>

#include "_python.h"

enum Kind { BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, UUID, STRING, BYTES, RECORDS, STRUCT };
enum Where { IGNORED, ABSENT, PLACED, TAGGED };
enum { ARRAY = 1, COMPACT = 2, NULLABLE = 4, NULL_BY_DEFAULT = 8, ERROR_CODE = 16 };
enum { STRING_MAX = 0x7FFF, TAGS_MAX = 1000, NUMBERS_IN_AN_ELEMENT = 4, UUIDS = 64, DEPTH_MAX = 8 };

typedef struct {
    int32_t kind, where, flags;
    int32_t slot;    /* where the object keeps it */
    int32_t inner;   /* its struct's number */
    int32_t initial; /* of the constants; -1 for a new list */
    int32_t tag, least;
} Field;

typedef struct {
    int32_t type; /* of the constants */
    int32_t first, count;
    int32_t unknown; /* the slot of tagged fields that no schema has; 0 for none */
    int32_t flexible, ever_flexible;
} Structure;

typedef struct {
    const Structure *structures;
    const Field *fields;
    PyObject *constants; /* of which the first two are bytes.__new__ and Uuid */
} Plan;

typedef struct {
    Plan plan;
    PyObject *whole, *view;
    const uint8_t *data;
    Py_ssize_t at, end;
    int64_t budget; /* elements of arrays */
} Reader;

typedef struct {
    Plan plan;
    PyObject *open, *parts;
    uint8_t *data;
    size_t size, capacity;
    uint8_t small[1024];
} Writer;

static const int8_t WIDTHS[] = {1, 1, 2, 2, 4, 4, 8, 16};

static PyObject *constant(const Plan *plan, int32_t number) { return PyTuple_GetItem(plan->constants, number); }

static PyObject **slot(PyObject *object, int32_t offset) { return (PyObject **)(void *)((char *)object + offset); }

static PyObject *kept(PyObject *object) {
    if (object) Py_IncRef(object);
    return object;
}

/* Plans: bytes that begin with how many structs there are, padded to eight. */
static int plan_of(Plan *plan, PyObject *table, PyObject *constants) {
    const char *bytes = PyBytes_AsString(table);
    if (!bytes) return 0;
    int32_t structures;
    memcpy(&structures, bytes, sizeof structures);
    plan->structures = (const Structure *)(const void *)(bytes + 8);
    plan->fields = (const Field *)(const void *)(plan->structures + structures);
    plan->constants = constants;
    return 1;
}

/* ------------------------------------------------------------------------------------------------ reading */

static int has(const Reader *reader, int64_t bytes) { return bytes >= 0 && bytes <= reader->end - reader->at; }

static int read_varint(Reader *reader, int64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (!has(reader, 1)) return 0;
        uint8_t byte = reader->data[reader->at++];
        found |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)found;
            return found <= UINT32_MAX;
        }
    }
    return 0;
}

/* A length or a count, negative for null. */
static int read_length(Reader *reader, const Field *field, int width, int64_t *length) {
    if (field->flags & COMPACT) {
        if (!read_varint(reader, length)) return 0;
        --*length;
    } else {
        if (!has(reader, width)) return 0;
        uint64_t found = big_endian(reader->data + reader->at, width);
        *length = width == 2 ? (int16_t)found : (int32_t)found;
        reader->at += width;
    }
    return *length >= 0 || field->flags & NULLABLE;
}

/* The last ones that were read are kept: a topic's id comes again and again. */
static PyObject *read_uuid(const Plan *plan, const uint8_t *data) {
    static PyObject *known[UUIDS];
    PyObject **place = &known[(data[3] ^ data[7] ^ data[11] ^ data[15]) % UUIDS];
    if (!*place || memcmp(PyBytes_AsString(*place), data, 16)) {
        PyObject *raw = PyBytes_FromStringAndSize((const char *)data, 16);
        PyObject *made =
            raw ? PyObject_CallFunctionObjArgs(constant(plan, 0), constant(plan, 1), raw, (PyObject *)NULL) : NULL;
        if (raw) Py_DecRef(raw);
        if (!made) return NULL;
        PyObject *before = *place;
        *place = made;
        if (before) Py_DecRef(before);
    }
    return kept(*place);
}

static PyObject *read_records(Reader *reader, int64_t size) {
    if (!reader->view) reader->view = PyMemoryView_FromObject(reader->whole);
    if (!reader->view) return NULL;
    PyObject *start = PyLong_FromLongLong(reader->at), *stop = PyLong_FromLongLong(reader->at + size);
    PyObject *slice = start && stop ? PySlice_New(start, stop, NULL) : NULL;
    PyObject *found = slice ? PyObject_GetItem(reader->view, slice) : NULL;
    if (start) Py_DecRef(start);
    if (stop) Py_DecRef(stop);
    if (slice) Py_DecRef(slice);
    return found;
}

static PyObject *read_struct(Reader *reader, int32_t number, int depth);

/* One value, an element where the field is an array; NULL where it is declined. */
static PyObject *read_value(Reader *reader, const Field *field, int nullable, int depth) {
    if (field->kind <= UUID) {
        int width = WIDTHS[field->kind];
        if (!has(reader, width)) return NULL;
        const uint8_t *data = reader->data + reader->at;
        reader->at += width;
        if (field->kind == UUID) return read_uuid(&reader->plan, data);
        uint64_t found = big_endian(data, width);
        switch (field->kind) {
            case BOOL: return PyBool_FromLong(found != 0);
            case INT8: return PyLong_FromLong((int8_t)found);
            case INT16: return PyLong_FromLong((int16_t)found);
            case INT32: return PyLong_FromLong((int32_t)found);
            default: return PyLong_FromLongLong((int64_t)found);
        }
    }
    if (field->kind == STRUCT) {
        if (nullable) {
            if (!has(reader, 1)) return NULL;
            if ((int8_t)reader->data[reader->at++] < 0) return kept(&_Py_NoneStruct);
        }
        return read_struct(reader, field->inner, depth + 1);
    }
    int64_t size;
    if (!read_length(reader, field, field->kind == STRING ? 2 : 4, &size)) return NULL;
    if (size < 0) return nullable ? kept(&_Py_NoneStruct) : NULL;
    if (!has(reader, size) || (field->kind == STRING && size > STRING_MAX)) return NULL;
    const char *data = (const char *)reader->data + reader->at;
    PyObject *found = field->kind == STRING  ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)size, "replace")
                      : field->kind == BYTES ? PyBytes_FromStringAndSize(data, (Py_ssize_t)size)
                                             : read_records(reader, size);
    reader->at += size;
    return found;
}

static PyObject *read_any(Reader *reader, const Field *field, int depth) {
    if (!(field->flags & ARRAY)) return read_value(reader, field, field->flags & NULLABLE, depth);
    int64_t count;
    if (!read_length(reader, field, 4, &count)) return NULL;
    if (count < 0) return kept(&_Py_NoneStruct);
    if (!has(reader, count * field->least)) return NULL;
    reader->budget -= field->kind < UUID ? count / NUMBERS_IN_AN_ELEMENT : count;
    if (reader->budget < 0) return NULL;
    PyObject *list = PyList_New((Py_ssize_t)count);
    if (!list) return NULL;
    for (int64_t number = 0; number < count; number++) {
        PyObject *element = read_value(reader, field, 0, depth);
        if (!element || PyList_SetItem(list, (Py_ssize_t)number, element) < 0) {
            Py_DecRef(list);
            return NULL;
        }
    }
    return list;
}

static int read_tagged(Reader *reader, const Structure *structure, PyObject *object, int depth) {
    int64_t count, tag, size;
    if (!read_varint(reader, &count) || count < 1 || count > TAGS_MAX || (reader->budget -= count) < 0) return 0;
    while (count--) {
        if (!read_varint(reader, &tag) || !read_varint(reader, &size) || !has(reader, size)) return 0;
        const Field *field = &reader->plan.fields[structure->first], *behind = field + structure->count;
        while (field < behind && !(field->where == TAGGED && field->tag == tag)) field++;
        if (field == behind) return 0;
        Py_ssize_t stop = reader->at + (Py_ssize_t)size;
        PyObject *value = read_any(reader, field, depth);
        if (!value) return 0;
        PyObject **place = slot(object, field->slot), *before = *place;
        *place = value;
        Py_DecRef(before);
        if (reader->at != stop) return 0;
    }
    return 1;
}

static PyObject *read_struct(Reader *reader, int32_t number, int depth) {
    const Structure *structure = &reader->plan.structures[number];
    if (depth > DEPTH_MAX) return NULL;
    PyObject *object = PyType_GenericAlloc(constant(&reader->plan, structure->type), 0);
    if (!object) return NULL;
    const Field *field = &reader->plan.fields[structure->first], *behind = field + structure->count;
    for (; field < behind; field++) {
        PyObject *value = field->where == PLACED ? read_any(reader, field, depth)
                          : field->initial < 0   ? PyList_New(0)
                                                 : kept(constant(&reader->plan, field->initial));
        if (!value) goto declined;
        *slot(object, field->slot) = value;
    }
    if (structure->unknown) *slot(object, structure->unknown) = kept(&_Py_NoneStruct);
    if (structure->flexible) {
        if (has(reader, 1) && !reader->data[reader->at])
            reader->at++;
        else if (!read_tagged(reader, structure, object, depth))
            goto declined;
    }
    return object;
declined:
    Py_DecRef(object);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ writing */

static int room(Writer *writer, size_t bytes) {
    if (bytes <= writer->capacity - writer->size) return 1;
    size_t capacity = writer->capacity * 2 + bytes;
    uint8_t *grown = writer->data == writer->small ? malloc(capacity) : realloc(writer->data, capacity);
    if (!grown) return 0;
    if (writer->data == writer->small) memcpy(grown, writer->small, writer->size);
    writer->data = grown;
    writer->capacity = capacity;
    return 1;
}

static int write_bytes(Writer *writer, const void *data, size_t bytes) {
    if (!room(writer, bytes)) return 0;
    if (bytes) memcpy(writer->data + writer->size, data, bytes);
    writer->size += bytes;
    return 1;
}

static int write_number(Writer *writer, uint64_t number, int width) {
    if (!room(writer, 8)) return 0;
    for (int at = width - 1; at >= 0; at--, number >>= 8) writer->data[writer->size + (size_t)at] = (uint8_t)number;
    writer->size += (size_t)width;
    return 1;
}

static int write_varint(Writer *writer, uint64_t number) {
    if (!room(writer, 10)) return 0;
    for (; number > 0x7F; number >>= 7) writer->data[writer->size++] = (uint8_t)(number | 0x80);
    writer->data[writer->size++] = (uint8_t)number;
    return 1;
}

/* `length` is negative for null. */
static int write_length(Writer *writer, const Field *field, int width, int64_t length) {
    if (length < 0 && !(field->flags & NULLABLE)) return 0;
    if (field->flags & COMPACT) return write_varint(writer, (uint64_t)(length + 1));
    if (length > (width == 2 ? INT16_MAX : INT32_MAX)) return 0;
    return write_number(writer, (uint64_t)length, width);
}

static int is_a(PyObject *object, unsigned long subclass) { return (PyType_GetFlags(object->type) & subclass) != 0; }

static PyObject *element(PyObject *array, Py_ssize_t number) {
    return array->type == &PyList_Type ? PyList_GetItem(array, number) : PyTuple_GetItem(array, number);
}

/* How many elements; -1 where it is no list. */
static Py_ssize_t elements(PyObject *array) {
    return array->type == &PyList_Type ? PyList_Size(array) : array->type == &PyTuple_Type ? PyTuple_Size(array) : -1;
}

/* Puts what was written into the open buffer, which is full then. */
static int flush(Writer *writer) {
    Py_ssize_t before = PyByteArray_Size(writer->open);
    if (PyByteArray_Resize(writer->open, before + (Py_ssize_t)writer->size) < 0) return 0;
    if (writer->size) memcpy(PyByteArray_AsString(writer->open) + before, writer->data, writer->size);
    writer->size = 0;
    return 1;
}

static int write_records(Writer *writer, const Field *field, PyObject *value) {
    int64_t size = 0;
    int in_parts = value->type == &PyList_Type;
    if (value == &_Py_NoneStruct) return write_length(writer, field, 4, -1);
    if (in_parts) {
        for (Py_ssize_t number = 0; number < PyList_Size(value); number++) {
            Py_ssize_t part = PyObject_Size(PyList_GetItem(value, number));
            if (part < 0) return 0;
            size += part;
        }
    } else if ((size = PyObject_Size(value)) < 0) {
        return 0;
    }
    if (!write_length(writer, field, 4, size)) return 0;
    if (in_parts ? !PyList_Size(value) : !size) return 1;
    PyObject *next = PyByteArray_FromStringAndSize(NULL, 0);
    if (!next) return 0;
    int done = flush(writer) && PyList_Append(writer->parts, writer->open) == 0;
    Py_ssize_t count = PyList_Size(writer->parts);
    done = done && (in_parts ? PyList_SetSlice(writer->parts, count, count, value) == 0
                             : PyList_Append(writer->parts, value) == 0);
    Py_DecRef(writer->open);
    writer->open = next;
    return done;
}

static int write_struct(Writer *writer, int32_t number, PyObject *object, int depth);

static int write_value(Writer *writer, const Field *field, PyObject *value, int nullable, int depth) {
    switch (field->kind) {
        case STRUCT:
            if (nullable) {
                if (!write_number(writer, value == &_Py_NoneStruct ? 0xFF : 1, 1)) return 0;
                if (value == &_Py_NoneStruct) return 1;
            }
            return write_struct(writer, field->inner, value, depth + 1);
        case STRING: {
            Py_ssize_t size = -1;
            const char *text = NULL;
            if (value != &_Py_NoneStruct) {
                if (!is_a(value, STR_SUBCLASS) || !(text = PyUnicode_AsUTF8AndSize(value, &size))) return 0;
                if (size > STRING_MAX) return 0;
            } else if (!nullable) {
                return 0;
            }
            return write_length(writer, field, 2, size) && (size <= 0 || write_bytes(writer, text, (size_t)size));
        }
        case BYTES: {
            if (value == &_Py_NoneStruct) return nullable && write_length(writer, field, 4, -1);
            if (!is_a(value, BYTES_SUBCLASS)) return 0;
            Py_ssize_t size = PyBytes_Size(value);
            return write_length(writer, field, 4, size) && write_bytes(writer, PyBytes_AsString(value), (size_t)size);
        }
        case RECORDS:
            return write_records(writer, field, value);
        case UUID:
            return is_a(value, BYTES_SUBCLASS) && PyBytes_Size(value) == 16 &&
                   write_bytes(writer, PyBytes_AsString(value), 16);
        default: {
            static const int64_t LEAST[] = {0, INT8_MIN, INT16_MIN, 0, INT32_MIN, 0, INT64_MIN};
            static const int64_t MOST[] = {1, INT8_MAX, INT16_MAX, UINT16_MAX, INT32_MAX, UINT32_MAX, INT64_MAX};
            if (!is_a(value, INT_SUBCLASS) || (field->kind == BOOL && value->type != &PyBool_Type)) return 0;
            long long found = PyLong_AsLongLong(value);
            if (found == -1 && PyErr_Occurred()) return 0;
            return found >= LEAST[field->kind] && found <= MOST[field->kind] &&
                   write_number(writer, (uint64_t)found, WIDTHS[field->kind]);
        }
    }
}

static int write_any(Writer *writer, const Field *field, PyObject *value, int depth) {
    if (!(field->flags & ARRAY)) return write_value(writer, field, value, field->flags & NULLABLE, depth);
    if (value == &_Py_NoneStruct) return write_length(writer, field, 4, -1);
    Py_ssize_t count = elements(value);
    if (count < 0 || !write_length(writer, field, 4, count)) return 0;
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *each = element(value, number);
        if (!each || !write_value(writer, field, each, 0, depth)) return 0;
    }
    return 1;
}

/* Whether a field holds anything but its default; -1 where that cannot be said. */
static int is_set(const Plan *plan, const Field *field, PyObject *object, int depth) {
    PyObject *value = *slot(object, field->slot);
    if (!value || depth > DEPTH_MAX) return -1;
    PyObject *initial = field->initial < 0 ? NULL : constant(plan, field->initial);
    if (value == initial) return 0;
    if (field->flags & NULL_BY_DEFAULT || value == &_Py_NoneStruct) return 1;
    if (field->flags & ARRAY) {
        Py_ssize_t count = elements(value);
        return count < 0 ? -1 : count > 0;
    }
    if (field->kind == BYTES) {
        Py_ssize_t size = PyObject_Size(value);
        return size < 0 ? -1 : size > 0;
    }
    if (field->kind != STRUCT) return PyObject_RichCompareBool(value, initial, PY_NE);
    const Structure *structure = &plan->structures[field->inner];
    if (value->type != constant(plan, structure->type)) return -1;
    for (int32_t at = 0; at < structure->count; at++) {
        int inner = is_set(plan, &plan->fields[structure->first + at], value, depth + 1);
        if (inner) return inner;
    }
    if (!structure->unknown) return 0;
    PyObject *unknown = *slot(value, structure->unknown);
    return unknown ? unknown != &_Py_NoneStruct : -1;
}

/* The tagged fields that are set, which stand in the order of their tags. */
static int write_tagged(Writer *writer, const Structure *structure, PyObject *object, int depth) {
    const Field *first = &writer->plan.fields[structure->first], *behind = first + structure->count;
    uint64_t count = 0;
    for (const Field *field = first; field < behind; field++) {
        if (field->where != TAGGED) continue;
        int set = is_set(&writer->plan, field, object, depth);
        if (set < 0) return 0;
        count += (uint64_t)set;
    }
    if (!write_varint(writer, count)) return 0;
    int32_t last = -1;
    while (count--) {
        const Field *next = NULL;
        for (const Field *field = first; field < behind; field++)
            if (field->where == TAGGED && field->tag > last && (!next || field->tag < next->tag) &&
                is_set(&writer->plan, field, object, depth) == 1)
                next = field;
        if (!next || !write_varint(writer, (uint64_t)next->tag)) return 0;
        last = next->tag;
        size_t begin = writer->size;
        PyObject *open = writer->open;
        if (!write_any(writer, next, *slot(object, next->slot), depth) || writer->open != open) return 0;
        /* Its size stands before it. */
        size_t size = writer->size - begin, width = size < 0x80 ? 1 : size < 0x4000 ? 2 : size < 0x200000 ? 3 : 5;
        if (width == 5 || !room(writer, width)) return 0;
        memmove(writer->data + begin + width, writer->data + begin, size);
        writer->size = begin;
        if (!write_varint(writer, size)) return 0;
        writer->size = begin + width + size;
    }
    return 1;
}

static int write_struct(Writer *writer, int32_t number, PyObject *object, int depth) {
    const Structure *structure = &writer->plan.structures[number];
    if (depth > DEPTH_MAX || object->type != constant(&writer->plan, structure->type)) return 0;
    int tagged = 0;
    const Field *field = &writer->plan.fields[structure->first], *behind = field + structure->count;
    for (; field < behind; field++) {
        PyObject *value = *slot(object, field->slot);
        if (!value) return 0;
        if (field->where == PLACED) {
            if (!write_any(writer, field, value, depth)) return 0;
        } else if (field->where == TAGGED) {
            tagged = tagged || field->initial < 0 || value != constant(&writer->plan, field->initial);
        } else if (field->where == ABSENT && is_set(&writer->plan, field, object, depth)) {
            return 0;
        }
    }
    if (structure->unknown && *slot(object, structure->unknown) != &_Py_NoneStruct) return 0;
    if (!structure->flexible) return 1;
    return tagged ? write_tagged(writer, structure, object, depth) : write_number(writer, 0, 1);
}

/* How many error codes there are in a struct and in its arrays of structs, if all are 0; -1 where one is not. */
static int64_t no_errors(const Plan *plan, int32_t number, PyObject *object, int depth) {
    const Structure *structure = &plan->structures[number];
    if (depth > DEPTH_MAX || object->type != constant(plan, structure->type)) return -1;
    int64_t codes = 0;
    const Field *field = &plan->fields[structure->first], *behind = field + structure->count;
    for (; field < behind; field++) {
        PyObject *value = *slot(object, field->slot);
        if (!value) return -1;
        if (field->flags & ERROR_CODE) {
            if (!is_a(value, INT_SUBCLASS) || PyLong_AsLongLong(value)) return -1;
            codes++;
        } else if (field->flags & ARRAY && field->kind == STRUCT && value != &_Py_NoneStruct) {
            Py_ssize_t count = elements(value);
            if (count < 0) return -1;
            for (Py_ssize_t at = 0; at < count; at++) {
                PyObject *each = element(value, at);
                int64_t inner = each ? no_errors(plan, field->inner, each, depth + 1) : -1;
                if (inner < 0) return -1;
                codes += inner;
            }
        }
    }
    return codes;
}

/* ------------------------------------------------------------------------------------------------ for Python */

static PyObject *not_so(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

/* decode(table, constants, budget, buffer, offset): (message, offset behind it), or None where it is declined. */
static PyObject *decode(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 5) return not_so("decode takes five arguments");
    Reader reader = {.whole = arguments[3]};
    reader.budget = PyLong_AsLongLong(arguments[2]);
    reader.at = (Py_ssize_t)PyLong_AsLongLong(arguments[4]);
    if (PyErr_Occurred() || !plan_of(&reader.plan, arguments[0], arguments[1])) return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[3], &buffer, PYBUF_SIMPLE) < 0) return NULL;
    reader.data = buffer.buf;
    reader.end = buffer.len;
    PyObject *found = NULL;
    if (reader.at >= 0 && reader.at <= reader.end) {
        PyObject *message = read_struct(&reader, 0, 0);
        PyObject *behind = message ? PyLong_FromLongLong(reader.at) : NULL;
        if (behind) found = PyTuple_Pack((Py_ssize_t)2, message, behind);
        if (behind) Py_DecRef(behind);
        if (message) Py_DecRef(message);
    }
    if (reader.view) Py_DecRef(reader.view);
    PyBuffer_Release(&buffer);
    if (found) return found;
    PyErr_Clear();
    return kept(&_Py_NoneStruct);
}

/* Writes a message behind what is in `open`: the buffer that is open then, or NULL where it is declined, or failed: then
 * nothing was written. */
static PyObject *written(PyObject *table, PyObject *constants, PyObject *message, PyObject *open, PyObject *parts) {
    if (open->type != &PyByteArray_Type || parts->type != &PyList_Type) return not_so("a bytearray is written into");
    Writer writer;
    if (!plan_of(&writer.plan, table, constants)) return NULL;
    writer.open = kept(open);
    writer.parts = parts;
    writer.data = writer.small;
    writer.size = 0;
    writer.capacity = sizeof writer.small;
    Py_ssize_t bytes_before = PyByteArray_Size(open), parts_before = PyList_Size(parts);
    int done = write_struct(&writer, 0, message, 0) && flush(&writer);
    if (writer.data != writer.small) free(writer.data);
    if (done) return writer.open;
    PyErr_Clear();
    Py_DecRef(writer.open);
    if (PyList_SetSlice(parts, parts_before, PyList_Size(parts), NULL) == 0) PyByteArray_Resize(open, bytes_before);
    return NULL;
}

static PyObject *or_declined(PyObject *found) { return found || PyErr_Occurred() ? found : kept(&_Py_NoneStruct); }

/* encode(table, constants, message, open, parts): the buffer that is open then, or None where it is declined: then
 * nothing was written. */
static PyObject *encode(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 5) return not_so("encode takes five arguments");
    return or_declined(written(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]));
}

/* frame(table, constants, message, head): the parts of a frame that begins with `head`, a bytearray, whose first four
 * bytes become its size; None where it is declined. */
static PyObject *frame(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 4) return not_so("frame takes four arguments");
    PyObject *head = arguments[3], *parts = PyList_New(0);
    if (!parts) return NULL;
    PyObject *last = written(arguments[0], arguments[1], arguments[2], head, parts);
    int done = last && ((PyList_Size(parts) && !PyByteArray_Size(last)) || PyList_Append(parts, last) == 0);
    int64_t size = -4;
    for (Py_ssize_t number = 0; done && number < PyList_Size(parts); number++)
        size += PyObject_Size(PyList_GetItem(parts, number));
    done = done && size >= 0 && size <= INT32_MAX;
    if (last) Py_DecRef(last);
    if (done) {
        char *begin = PyByteArray_AsString(head);
        for (int at = 0; at < 4; at++) begin[at] = (char)(size >> (24 - 8 * at));
        return parts;
    }
    Py_DecRef(parts);
    return or_declined(NULL);
}

/* header(versions, type, frame): (header, offset behind it), or None where it is declined. `versions` has two bytes for
 * each API key: the highest version, and the first flexible one; 255 for what is declined. A header is a tuple. */
static PyObject *header(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 3) return not_so("header takes three arguments");
    const uint8_t *versions = (const uint8_t *)PyBytes_AsString(arguments[0]);
    if (!versions) return NULL;
    Py_ssize_t keys = PyBytes_Size(arguments[0]) / 2;
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[2], &buffer, PYBUF_SIMPLE) < 0) return NULL;
    const uint8_t *data = buffer.buf;
    PyObject *found = NULL;
    if (buffer.len >= 10) {
        int64_t key = (int64_t)big_endian(data, 2), version = (int64_t)big_endian(data + 2, 2);
        Py_ssize_t size = (int16_t)big_endian(data + 8, 2), at = 10 + (size > 0 ? size : 0);
        int known = key < keys && versions[2 * key] != 255 && version <= versions[2 * key] && size >= -1 && at <= buffer.len;
        int flexible = known && version >= versions[2 * key + 1];
        if (known && (!flexible || (at < buffer.len && !data[at]))) {
            PyObject *parts[] = {
                PyLong_FromLongLong(key),
                PyLong_FromLongLong(version),
                PyLong_FromLong((int32_t)big_endian(data + 4, 4)),
                size < 0 ? kept(&_Py_NoneStruct) : PyUnicode_DecodeUTF8((const char *)data + 10, size, "replace"),
                PyLong_FromLongLong(at + flexible),
            };
            if (parts[0] && parts[1] && parts[2] && parts[3] && parts[4]) {
                PyObject *made = PyType_GenericAlloc(arguments[1], 4);
                int filled = made != NULL;
                for (int number = 0; filled && number < 4; number++)
                    filled = PyTuple_SetItem(made, number, kept(parts[number])) == 0;
                if (filled) found = PyTuple_Pack((Py_ssize_t)2, made, parts[4]);
                if (made) Py_DecRef(made);
            }
            for (int number = 0; number < 5; number++)
                if (parts[number]) Py_DecRef(parts[number]);
        }
    }
    PyBuffer_Release(&buffer);
    return or_declined(found);
}

/* errors(table, constants, message): how many error codes it has, if all are 0; -1 where one is not. */
static PyObject *errors(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    Plan plan;
    if (count != 3) return not_so("errors takes three arguments");
    if (!plan_of(&plan, arguments[0], arguments[1])) return NULL;
    int64_t found = no_errors(&plan, 0, arguments[2], 0);
    PyErr_Clear();
    return PyLong_FromLongLong(found);
}

/* make(class, slots, value..): a struct of the class, with the values where `slots` says that its fields are, and None
 * in those that are left. */
static PyObject *make(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    const char *slots = count < 2 ? NULL : PyBytes_AsString(arguments[1]);
    if (!slots) return count < 2 ? not_so("make takes a class and its slots") : NULL;
    Py_ssize_t fields = PyBytes_Size(arguments[1]) / (Py_ssize_t)sizeof(int32_t);
    if (count - 2 > fields) return not_so("the struct has fewer fields");
    PyObject *made = PyType_GenericAlloc(arguments[0], 0);
    for (Py_ssize_t number = 0; made && number < fields; number++) {
        int32_t at;
        memcpy(&at, slots + number * (Py_ssize_t)sizeof at, sizeof at);
        *slot(made, at) = kept(number < count - 2 ? arguments[2 + number] : &_Py_NoneStruct);
    }
    return made;
}

/* slot_of(class, name, size): where objects of the class, which have `size` bytes, keep what `__slots__` calls so. */
static PyObject *slot_of(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 3) return not_so("slot_of takes three arguments");
    long size = PyLong_AsLong(arguments[2]), found = 0;
    if (PyErr_Occurred()) return NULL;
    PyObject *object = PyType_GenericAlloc(arguments[0], 0), *mark = PyList_New(0);
    if (object && mark && PyObject_SetAttr(object, arguments[1], mark) == 0)
        for (long at = (long)sizeof(PyObject); at + (long)sizeof(PyObject *) <= size; at += (long)sizeof(PyObject *))
            if (*slot(object, (int32_t)at) == mark) found = at;
    if (object) Py_DecRef(object);
    if (mark) Py_DecRef(mark);
    if (PyErr_Occurred()) return NULL;
    return found ? PyLong_FromLong(found) : not_so("it is kept nowhere in the object");
}

#endif
