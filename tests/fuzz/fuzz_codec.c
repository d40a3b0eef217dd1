/* libFuzzer's target for barnabas/wire/_codec.h: `make fuzz`.
 *
 * An input is the number of a plan (of those in plans.h, which codec_seeds.py makes) and a message. It is read, written
 * and read again, in memory of its exact size, so that AddressSanitizer sees a byte too many and an object that is
 * forgotten. What the kernel uses of Python is below: objects of the few types that it knows, counted as Python's are.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/barnabas/wire/_codec.h"
#include "plans.h"

enum { SLOTS = 64, LASTING = 1 << 30 };

typedef struct {
    PyObject base;
    int64_t number;
    Py_ssize_t size;
    char *data;       /* of text, bytes, bytearrays and views */
    PyObject **items; /* of lists and tuples */
} Object;
typedef struct {
    PyObject base;
    PyObject *slots[SLOTS];
} Instance;

static PyObject class_type = {LASTING, NULL}, int_type = {LASTING, NULL}, str_type = {LASTING, NULL};
static PyObject bytes_type = {LASTING, NULL}, view_type = {LASTING, NULL}, slice_type = {LASTING, NULL};
PyObject PyList_Type = {LASTING, NULL}, PyTuple_Type = {LASTING, NULL}, PyBool_Type = {LASTING, NULL};
PyObject PyByteArray_Type = {LASTING, NULL}, _Py_NoneStruct = {LASTING, NULL}, *PyExc_ValueError;

static void check(int holds) {
    if (!holds) abort();
}

static Object *of(PyObject *object) { return (Object *)(void *)object; }

static PyObject *made(PyObject *type, int64_t number, const char *data, Py_ssize_t size) {
    Object *object = calloc(1, sizeof *object);
    check(object && size >= 0);
    object->base = (PyObject){1, type};
    object->number = number;
    object->size = size;
    object->data = malloc((size_t)size);
    if (data && size) memcpy(object->data, data, (size_t)size);
    return &object->base;
}

static PyObject *made_of(PyObject *type, Py_ssize_t count) {
    PyObject *object = made(type, 0, NULL, 0);
    of(object)->size = count;
    of(object)->items = calloc((size_t)count + 1, sizeof(PyObject *));
    return object;
}

void Py_IncRef(PyObject *object) { object->references++; }

void Py_DecRef(PyObject *object) {
    check(object->references > 0);
    if (--object->references) return;
    if (object->type->type == &class_type) {
        Instance *instance = (Instance *)(void *)object;
        for (int at = 0; at < SLOTS; at++)
            if (instance->slots[at]) Py_DecRef(instance->slots[at]);
    } else {
        for (Py_ssize_t at = 0; of(object)->items && at < of(object)->size; at++)
            if (of(object)->items[at]) Py_DecRef(of(object)->items[at]);
        free(of(object)->items);
        free(of(object)->data);
    }
    free(object);
}

unsigned long PyType_GetFlags(PyObject *type) {
    return type == &int_type || type == &PyBool_Type ? INT_SUBCLASS
           : type == &bytes_type                     ? BYTES_SUBCLASS
           : type == &str_type                       ? STR_SUBCLASS
                                                     : 0;
}

PyObject *PyType_GenericAlloc(PyObject *type, Py_ssize_t items) {
    if (type == &PyTuple_Type) return made_of(type, items);
    check(type->type == &class_type && !items);
    Instance *instance = calloc(1, sizeof *instance);
    instance->base = (PyObject){1, type};
    return &instance->base;
}

PyObject *PyLong_FromLong(long value) { return made(&int_type, value, NULL, 0); }
PyObject *PyLong_FromLongLong(long long value) { return made(&int_type, value, NULL, 0); }
PyObject *PyBool_FromLong(long value) { return made(&PyBool_Type, value != 0, NULL, 0); }
long long PyLong_AsLongLong(PyObject *number) { return of(number)->number; }
long PyLong_AsLong(PyObject *number) { return (long)of(number)->number; }
PyObject *PyErr_Occurred(void) { return NULL; }
void PyErr_Clear(void) {}
void PyErr_SetString(PyObject *kind, const char *message) {
    (void)kind;
    fprintf(stderr, "%s\n", message);
    abort();
}

int PyObject_GetBuffer(PyObject *exporter, Py_buffer *view, int flags) {
    (void)flags;
    *view = (Py_buffer){.buf = of(exporter)->data, .obj = exporter, .len = of(exporter)->size};
    return 0;
}
void PyBuffer_Release(Py_buffer *view) { view->buf = NULL; }

PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...) {
    va_list arguments;
    va_start(arguments, callable);
    va_arg(arguments, PyObject *);
    PyObject *raw = va_arg(arguments, PyObject *);
    va_end(arguments);
    Py_IncRef(raw); /* a Uuid is its bytes here */
    return raw;
}

PyObject *PyObject_GetItem(PyObject *object, PyObject *key) {
    check(object->type == &view_type && key->type == &slice_type);
    int64_t start = of(of(key)->items[0])->number, stop = of(of(key)->items[1])->number;
    check(0 <= start && start <= stop && stop <= of(object)->size);
    return made(&view_type, 0, of(object)->data + start, (Py_ssize_t)(stop - start));
}
PyObject *PyMemoryView_FromObject(PyObject *object) { return made(&view_type, 0, of(object)->data, of(object)->size); }
PyObject *PySlice_New(PyObject *start, PyObject *stop, PyObject *step) {
    (void)step;
    PyObject *slice = made_of(&slice_type, 2);
    Py_IncRef(of(slice)->items[0] = start);
    Py_IncRef(of(slice)->items[1] = stop);
    return slice;
}
Py_ssize_t PyObject_Size(PyObject *object) { return of(object)->size; }
int PyObject_SetAttr(PyObject *object, PyObject *name, PyObject *value) {
    (void)object, (void)name, (void)value;
    return -1;
}
int PyObject_RichCompareBool(PyObject *one, PyObject *other, int operation) {
    check(operation == PY_NE);
    return one->type != other->type || of(one)->number != of(other)->number || of(one)->size != of(other)->size ||
           (of(one)->size && memcmp(of(one)->data, of(other)->data, (size_t)of(one)->size));
}

PyObject *PyTuple_Pack(Py_ssize_t count, ...) {
    PyObject *tuple = made_of(&PyTuple_Type, count);
    va_list arguments;
    va_start(arguments, count);
    for (Py_ssize_t at = 0; at < count; at++) Py_IncRef(of(tuple)->items[at] = va_arg(arguments, PyObject *));
    va_end(arguments);
    return tuple;
}
PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t index) {
    check(0 <= index && index < of(tuple)->size);
    return of(tuple)->items[index];
}
int PyTuple_SetItem(PyObject *tuple, Py_ssize_t index, PyObject *item) {
    check(index < of(tuple)->size && !of(tuple)->items[index]);
    of(tuple)->items[index] = item;
    return 0;
}
Py_ssize_t PyTuple_Size(PyObject *tuple) { return of(tuple)->size; }
PyObject *PyList_New(Py_ssize_t count) { return made_of(&PyList_Type, count); }
Py_ssize_t PyList_Size(PyObject *list) { return of(list)->size; }
PyObject *PyList_GetItem(PyObject *list, Py_ssize_t index) { return PyTuple_GetItem(list, index); }
int PyList_SetItem(PyObject *list, Py_ssize_t index, PyObject *item) {
    check(0 <= index && index < of(list)->size && !of(list)->items[index]);
    of(list)->items[index] = item;
    return 0;
}
int PyList_Append(PyObject *list, PyObject *item) {
    Object *into = of(list);
    into->items = realloc(into->items, ((size_t)into->size + 1) * sizeof(PyObject *));
    Py_IncRef(into->items[into->size++] = item);
    return 0;
}
int PyList_SetSlice(PyObject *list, Py_ssize_t low, Py_ssize_t high, PyObject *items) {
    check(0 <= low && low <= high && high == of(list)->size);
    if (items) check(low == high); /* what is written twice comes from a list: none is read */
    while (of(list)->size > low) Py_DecRef(of(list)->items[--of(list)->size]);
    for (Py_ssize_t at = 0; items && at < of(items)->size; at++) PyList_Append(list, of(items)->items[at]);
    return 0;
}

PyObject *PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors) {
    (void)errors;
    return made(&str_type, 0, data, size);
}
const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size) {
    *size = of(text)->size;
    return of(text)->data;
}
PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size) { return made(&bytes_type, 0, data, size); }
char *PyBytes_AsString(PyObject *bytes) { return of(bytes)->data; }
Py_ssize_t PyBytes_Size(PyObject *bytes) { return of(bytes)->size; }
PyObject *PyByteArray_FromStringAndSize(const char *data, Py_ssize_t size) {
    return made(&PyByteArray_Type, 0, data, size);
}
char *PyByteArray_AsString(PyObject *array) { return of(array)->data; }
Py_ssize_t PyByteArray_Size(PyObject *array) { return of(array)->size; }
int PyByteArray_Resize(PyObject *array, Py_ssize_t size) {
    char *grown = malloc((size_t)size);
    if (size) memcpy(grown, of(array)->data, (size_t)(size < of(array)->size ? size : of(array)->size));
    free(of(array)->data);
    of(array)->data = grown;
    of(array)->size = size;
    return 0;
}

static PyObject *tables[PLANS], *constants[PLANS], nothing_set = {LASTING, &class_type};

/* The constants as codec_seeds.py tells them: a class, None, a number, a text, bytes, or a struct with nothing set. */
static void begin(int number) {
    const char *kinds = PLANS_CONSTANTS[number];
    Py_ssize_t count = (Py_ssize_t)strlen(kinds);
    tables[number] = made(&bytes_type, 0, (const char *)PLANS_TABLES[number], (Py_ssize_t)PLANS_SIZES[number]);
    constants[number] = made_of(&PyTuple_Type, count);
    for (Py_ssize_t at = 0; at < count; at++) {
        of(constants[number])->items[at] = kinds[at] == 'C'   ? made(&class_type, 0, NULL, 0)
                                           : kinds[at] == 'N' ? kept(&_Py_NoneStruct)
                                           : kinds[at] == 'i' ? PyLong_FromLong(0)
                                           : kinds[at] == 'b' ? PyBool_FromLong(0)
                                           : kinds[at] == 's' ? made(&str_type, 0, NULL, 0)
                                           : kinds[at] == 'u' ? made(&bytes_type, 0, "0123456789abcdef", 16)
                                           : kinds[at] == 'y' ? made(&bytes_type, 0, NULL, 0)
                                                              : PyType_GenericAlloc(&nothing_set, 0);
    }
}

static void read_header(PyObject *data) {
    char versions[200];
    for (int at = 0; at < 200; at++) versions[at] = (char)(at % 20 ? 3 + at % 2 * 6 : 255);
    PyObject *table = PyBytes_FromStringAndSize(versions, sizeof versions);
    PyObject *arguments[] = {table, &PyTuple_Type, data};
    PyObject *found = header(NULL, arguments, 3);
    check(found == &_Py_NoneStruct || of(of(found)->items[1])->number <= of(data)->size);
    Py_DecRef(found);
    Py_DecRef(table);
}

static PyObject *read_whole(int number, PyObject *data) {
    PyObject *budget = PyLong_FromLong(500), *offset = PyLong_FromLong(0);
    PyObject *arguments[] = {tables[number], constants[number], budget, data, offset};
    PyObject *found = decode(NULL, arguments, 5);
    Py_DecRef(budget);
    Py_DecRef(offset);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    int number = data[0] % PLANS;
    if (!tables[number]) begin(number);
    PyObject *input = PyByteArray_FromStringAndSize((const char *)data + 1, (Py_ssize_t)size - 1);
    PyObject *found = read_whole(number, input);
    read_header(input);
    if (found != &_Py_NoneStruct) {
        PyObject *open = PyByteArray_FromStringAndSize("head", 4), *parts = PyList_New(0);
        PyObject *arguments[] = {tables[number], constants[number], of(found)->items[0], open, parts};
        PyObject *last = encode(NULL, arguments, 5);
        if (last == &_Py_NoneStruct) {
            check(of(open)->size == 4 && !of(parts)->size);
        } else {
            PyObject *again = PyByteArray_FromStringAndSize(NULL, 0);
            PyList_Append(parts, last);
            for (Py_ssize_t at = 0; at < of(parts)->size; at++) {
                Object *part = of(of(parts)->items[at]);
                Py_ssize_t skipped = at ? 0 : 4, before = of(again)->size;
                PyByteArray_Resize(again, before + part->size - skipped);
                if (part->size > skipped)
                    memcpy(of(again)->data + before, part->data + skipped, (size_t)(part->size - skipped));
            }
            PyObject *twice = read_whole(number, again);
            check(twice != &_Py_NoneStruct && of(of(twice)->items[1])->number == of(again)->size);
            Py_DecRef(twice);
            Py_DecRef(again);
        }
        Py_DecRef(last);
        Py_DecRef(open);
        Py_DecRef(parts);
        PyObject *head = PyByteArray_FromStringAndSize("size", 4);
        PyObject *to_frame[] = {tables[number], constants[number], of(found)->items[0], head};
        Py_DecRef(frame(NULL, to_frame, 4));
        Py_DecRef(errors(NULL, to_frame, 3));
        Py_DecRef(head);
    }
    Py_DecRef(found);
    Py_DecRef(input);
    (void)slot_of;
    return 0;
}
