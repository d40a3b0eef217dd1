/* Python's small objects in slabs: pages of blocks of one size, each of which goes back to the system when it is
 * empty.
 *
 * CPython's own arenas have a megabyte, and one object keeps it: after two minutes of long requests a broker of 36 MiB
 * kept 95 of them for 20 MiB of objects. malloc's heap goes back by pages, but whatever lies between two pieces that
 * are gone keeps its page, of whatever size it is: after a minute of all attacks at once (make hostile) it had 54 MiB
 * for 14.
 *
 * New blocks come from the lowest slab of their size that has room. So what stays comes to lie close together below,
 * and the slabs above, which were needed when much was under way at once, get empty. And what is known to pass, made
 * by slices of long work (barnabas/runtime/turns.py), has slabs of its own, among which hardly anything stays; so has
 * what is known to stay, such as codecs and the state of partitions: a few of them would keep each page that a busy
 * time has left.
 *
 * The slabs lie in one range of addresses, a gigabyte of which the system gives what is used. What is larger than a
 * slab, and all for which there is no room, comes from where it came before: the address says where a block has to go
 * back to. All of this is called with the GIL held.
 */
#ifndef BARNABAS_SLABS_H
#define BARNABAS_SLABS_H

#include <string.h>

#include "_python.h"

enum { LASTING, PASSING, STAYING, HEAPS }; /* wire/kernel.py and runtime/turns.py know their order */

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>

enum { SLAB_BITS = 12, SLAB_BYTES = 1 << SLAB_BITS, UNIT = 16, UNITS = SLAB_BYTES / UNIT, CLASSES = 31 };
enum { SLABS = 1 << 18, SLABS_AT_ONCE = 4096 };
enum { EMPTY, CURRENT, WITH_ROOM, FULL };
#define NOT_IN_LINE __attribute__((noinline)) /* or the way that is taken nearly always saves registers for it */
static const size_t ALL_SLABS_BYTES = (size_t)SLABS << SLAB_BITS;

typedef struct {
    void *free; /* the first free block, which begins with the next; NULL for none */
    uint16_t used; /* how many blocks */
    uint8_t class, state, heap;
} Slab;

/* Numbers of slabs, the lowest of which is found in three steps. */
typedef struct {
    uint64_t top, middle[64], bottom[SLABS / 64];
} SlabSet;

typedef struct {
    Slab *current[CLASSES];
    SlabSet with_room[CLASSES];
} SlabHeap;

static uint8_t *slab_memory;
static Slab slabs[SLABS] __attribute__((aligned(1 << 16))); /* at a page's start, which has 64 KiB at most */
static Slab no_slab = {NULL, 0, 0, CURRENT, LASTING};
static uint32_t slabs_begun, slabs_ready; /* how many, from the first on, were used, and may be written to */
static uint32_t slabs_used;
static SlabSet slabs_free, slabs_dirty; /* dirty: of the free ones, those that did not go back to the system */
static SlabHeap slab_heaps[HEAPS], *slab_heap = &slab_heaps[LASTING];
static uint16_t block_bytes[CLASSES];
static uint8_t block_class[UNITS + 1];
static Allocator before_slabs;

static void add_slab(SlabSet *set, uint32_t number) {
    set->bottom[number >> 6] |= 1ull << (number & 63);
    set->middle[number >> 12] |= 1ull << (number >> 6 & 63);
    set->top |= 1ull << (number >> 12);
}

static void remove_slab(SlabSet *set, uint32_t number) {
    if (set->bottom[number >> 6] &= ~(1ull << (number & 63))) return;
    if (set->middle[number >> 12] &= ~(1ull << (number >> 6 & 63))) return;
    set->top &= ~(1ull << (number >> 12));
}

static uint32_t lowest_slab(const SlabSet *set) {
    uint32_t high = (uint32_t)__builtin_ctzll(set->top);
    high = high << 6 | (uint32_t)__builtin_ctzll(set->middle[high]);
    return high << 6 | (uint32_t)__builtin_ctzll(set->bottom[high]);
}

static uint8_t *memory_of(const Slab *slab) { return slab_memory + ((size_t)(slab - slabs) << SLAB_BITS); }

/* A slab that was free, with all its blocks; NULL where there is none. */
static Slab *new_slab(unsigned class) {
    uint32_t number;
    if (slabs_free.top) {
        number = lowest_slab(&slabs_free);
        remove_slab(&slabs_free, number);
        remove_slab(&slabs_dirty, number);
    } else {
        if (slabs_begun == slabs_ready) {
            size_t more = (size_t)SLABS_AT_ONCE << SLAB_BITS;
            uint8_t *next = slab_memory + ((size_t)slabs_ready << SLAB_BITS);
            if (slabs_ready == SLABS || mprotect(next, more, PROT_READ | PROT_WRITE) < 0) return NULL;
            slabs_ready += SLABS_AT_ONCE;
        }
        number = slabs_begun++;
    }
    slabs_used++;
    Slab *slab = &slabs[number];
    uint8_t *memory = memory_of(slab);
    size_t bytes = block_bytes[class];
    uint8_t *last = memory + (SLAB_BYTES / bytes - 1) * bytes;
    for (uint8_t *block = memory; block < last; block += bytes) *(void **)block = block + bytes;
    *(void **)last = NULL;
    *slab = (Slab){memory, 0, (uint8_t)class, EMPTY, (uint8_t)(slab_heap - slab_heaps)};
    return slab;
}

/* A block of the next slab, now that the one from which they came has no more. */
static NOT_IN_LINE void *block_of_next_slab(size_t size) {
    unsigned class = block_class[(size + UNIT - 1) / UNIT];
    SlabSet *with_room = &slab_heap->with_room[class];
    Slab *next;
    if (with_room->top) {
        uint32_t number = lowest_slab(with_room);
        remove_slab(with_room, number);
        next = &slabs[number];
    } else if (!(next = new_slab(class))) {
        return before_slabs.malloc(before_slabs.context, size);
    }
    if (slab_heap->current[class] != &no_slab) slab_heap->current[class]->state = FULL;
    next->state = CURRENT;
    slab_heap->current[class] = next;
    void *block = next->free;
    next->free = *(void **)block;
    next->used++;
    return block;
}

/* A block of a slab is free that had none, or no block of it is used any more. */
static NOT_IN_LINE void slab_changed(Slab *slab) {
    uint32_t number = (uint32_t)(slab - slabs);
    SlabSet *with_room = &slab_heaps[slab->heap].with_room[slab->class];
    if (slab->used) {
        slab->state = WITH_ROOM;
        add_slab(with_room, number);
        return;
    }
    if (slab->state == WITH_ROOM) remove_slab(with_room, number);
    slab->state = EMPTY;
    slabs_used--;
    add_slab(&slabs_free, number);
    add_slab(&slabs_dirty, number);
}

static void *slab_malloc(void *context, size_t size) {
    (void)context;
    if (size > SLAB_BYTES) return before_slabs.malloc(before_slabs.context, size);
    Slab *slab = slab_heap->current[block_class[(size + UNIT - 1) / UNIT]];
    void *block = slab->free;
    if (!block) return block_of_next_slab(size);
    slab->free = *(void **)block;
    slab->used++;
    return block;
}

static void slab_free(void *context, void *block) {
    (void)context;
    size_t at = (size_t)((uint8_t *)block - slab_memory);
    if (at >= ALL_SLABS_BYTES) {
        before_slabs.free(before_slabs.context, block);
        return;
    }
    Slab *slab = &slabs[at >> SLAB_BITS];
    *(void **)block = slab->free;
    slab->free = block;
    slab->used--;
    if (slab->state == FULL || (!slab->used && slab->state == WITH_ROOM)) slab_changed(slab);
}

static void *slab_calloc(void *context, size_t count, size_t size) {
    if (size && count > SLAB_BYTES / size) return before_slabs.calloc(before_slabs.context, count, size);
    void *block = slab_malloc(context, count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

static void *slab_realloc(void *context, void *block, size_t size) {
    if (!block) return slab_malloc(context, size);
    size_t at = (size_t)((uint8_t *)block - slab_memory);
    if (at >= ALL_SLABS_BYTES) return before_slabs.realloc(before_slabs.context, block, size);
    size_t had = block_bytes[slabs[at >> SLAB_BITS].class];
    if (size <= had && size > had - had / 4) return block;
    void *other = slab_malloc(context, size);
    if (!other) return size <= had ? block : NULL;
    memcpy(other, block, size < had ? size : had);
    slab_free(context, block);
    return other;
}

/* Whether small objects come from slabs now: not where somebody else watches over them, or chose another malloc. */
static int use_slabs(void) {
    if (slab_memory) return 1;
    if (!PyMem_GetAllocator || !PyMem_SetAllocator) return 0;
    Allocator raw, memory, objects;
    PyMem_GetAllocator(RAW_DOMAIN, &raw);
    PyMem_GetAllocator(MEMORY_DOMAIN, &memory);
    PyMem_GetAllocator(OBJECT_DOMAIN, &objects);
    if (objects.context || memory.malloc != objects.malloc || objects.malloc == raw.malloc) return 0;
    void *place = mmap(NULL, ALL_SLABS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return 0;
    madvise(place, ALL_SLABS_BYTES, MADV_NOHUGEPAGE);
    slab_memory = place;
    unsigned class = 0;
    for (unsigned units = 1; units <= UNITS; class++) {
        unsigned largest = UNITS / (UNITS / units); /* of which as many fit */
        block_bytes[class] = (uint16_t)(largest * UNIT);
        while (units <= largest) block_class[units++] = (uint8_t)class;
    }
    for (int heap = 0; heap < HEAPS; heap++)
        for (class = 0; class < CLASSES; class++) slab_heaps[heap].current[class] = &no_slab;
    before_slabs = objects;
    Allocator with_slabs = {NULL, slab_malloc, slab_calloc, slab_realloc, slab_free};
    PyMem_SetAllocator(MEMORY_DOMAIN, &with_slabs);
    PyMem_SetAllocator(OBJECT_DOMAIN, &with_slabs);
    return 1;
}

/* From which slabs small objects come from now on. Returns from which they came. */
static int choose_slabs(int heap) {
    int before = (int)(slab_heap - slab_heaps);
    slab_heap = &slab_heaps[heap];
    return before;
}

/* Whether all slabs are free of which these words of bits tell. */
static int all_free(uint32_t word, uint32_t end) {
    while (word < end && !~slabs_free.bottom[word]) word++;
    return word == end;
}

/* Gives back the pages of what is known of slabs, where all of a page are free: a new slab is known anew. */
static void forget_free_slabs(size_t page) {
    uint32_t words = (uint32_t)(page / sizeof(Slab) / 64), first = 0, end;
    for (; (first + words) * 64 <= slabs_begun; first = end) {
        end = first;
        while ((end + words) * 64 <= slabs_begun && all_free(end, end + words)) end += words;
        if (end > first) madvise(&slabs[(size_t)first * 64], (size_t)(end - first) * 64 * sizeof(Slab), MADV_DONTNEED);
        else end += words;
    }
}

/* Gives back the pages of a set in which there are no numbers (any more). */
static void forget_no_numbers(SlabSet *set, size_t page) {
    uintptr_t bottom = (uintptr_t)set->bottom, from = (bottom + page - 1) & ~(page - 1), to = from;
    for (; to + page <= bottom + sizeof set->bottom; to += page) {
        size_t word = (to - bottom) / 8, end = word + page / 8;
        while (word < end && !(set->middle[word >> 6] >> (word & 63) & 1)) word++;
        if (word == end) continue;
        if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
        from = to + page;
    }
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Gives the pages of free slabs back to the system. */
static void give_slabs_back(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    while (slabs_dirty.top) {
        uint32_t first = lowest_slab(&slabs_dirty), end = first;
        do remove_slab(&slabs_dirty, end++);
        while (slabs_dirty.top && lowest_slab(&slabs_dirty) == end);
        size_t from = (((size_t)first << SLAB_BITS) + page - 1) & ~(page - 1);
        size_t to = ((size_t)end << SLAB_BITS) & ~(page - 1);
        if (from < to) madvise(slab_memory + from, to - from, MADV_DONTNEED);
    }
    forget_free_slabs(page);
    for (int heap = 0; heap < HEAPS; heap++)
        for (int class = 0; class < CLASSES; class++) forget_no_numbers(&slab_heaps[heap].with_room[class], page);
    forget_no_numbers(&slabs_dirty, page);
}
#else /* who has no glibc has nothing that would give slabs back */
enum { SLAB_BITS = 12 };
static uint32_t slabs_used;
static int use_slabs(void) { return 0; }
static void give_slabs_back(void) {}
static int choose_slabs(int heap) { return heap; }
#endif

#endif
