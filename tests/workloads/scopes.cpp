// scopes SEED THREADS DEVICES ROUNDS: threads that allocate and release at random, at the levels of tensors and of
// the driver, and meanwhile begin, read, reset and end scopes, also those of other threads. Prints the figures of
// each scope after its end ("ended NUMBER TIME", TIME counts the ends of that scope), and at last those of open
// scopes: for each device and level a line of the five figures.
//
// Linked with a libc10.so (hook_c10.cpp), whose reporters it calls as PyTorch's allocator does.
#include "hook_client.h"
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace c10 {
struct Device {
    int8_t type, index;
};
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device);
} // namespace c10

struct figures { uint64_t start, live, peak, allocations, frees; };

static uint64_t (*begin_)(const char *);
static int (*read_)(uint64_t, int, int, figures *);
static int (*reset_)(uint64_t), (*end_)(uint64_t), (*forget_)(uint64_t), (*mark_)(const char *);

static const int LEVELS = 4;
static int devices;
static std::vector<void *> contexts;

// A scope. Any thread may change it while it holds the lock.
struct Slot {
    std::mutex lock;
    uint64_t number = 0;
    int ends = 0;
    bool goes_on = false;
};
static Slot slots[24];

static std::string told(const char *what, uint64_t number, int ends) {
    std::string text = std::string(what) + " " + std::to_string(number) + " " + std::to_string(ends) + "\n";
    for (int device = 0; device < devices; device++)
        for (int level = 0; level < LEVELS; level++) {
            figures f;
            CHECK(read_(number, device, level, &f));
            if (f.peak < f.start || f.peak < f.live)
                DIE("scope %llu: a peak below the start or what is live", (unsigned long long)number);
            for (uint64_t figure : {f.start, f.live, f.peak, f.allocations, f.frees})
                text += std::to_string(figure) + " ";
            text += "\n";
        }
    return text;
}

static void end(Slot &slot, std::string &out) {
    CHECK(end_(slot.number));
    slot.goes_on = false;
    std::string first = told("ended", slot.number, slot.ends);
    // A second end, and whatever happens meanwhile, changes nothing.
    CHECK(end_(slot.number));
    if (told("ended", slot.number, slot.ends) != first)
        DIE("scope %llu was not frozen", (unsigned long long)slot.number);
    slot.ends++;
    out += first;
}

static void one_scope(std::mt19937 &random, std::string &out) {
    Slot &slot = slots[random() % (sizeof slots / sizeof *slots)];
    if (!slot.lock.try_lock())
        return;
    if (slot.number == 0) {
        slot.number = begin_("work");
        if (slot.number == 0)
            DIE("no scope");
        slot.goes_on = true;
        slot.ends = 0;
    } else if (!slot.goes_on) {
        if (random() % 2) {
            CHECK(reset_(slot.number));
            slot.goes_on = true;
        } else {
            CHECK(forget_(slot.number));
            if (read_(slot.number, 0, 0, nullptr) != 2 || end_(slot.number) != 2 || reset_(slot.number) != 2)
                DIE("scope %llu is not forgotten", (unsigned long long)slot.number);
            slot.number = 0;
        }
    } else if (random() % 8 == 0) {
        CHECK(reset_(slot.number));
    } else if (random() % 2) {
        told("read", slot.number, 0);
    } else {
        end(slot, out);
    }
    slot.lock.unlock();
}

static void work(int thread, uint32_t seed, int rounds, std::string *out) {
    std::mt19937 random(seed * 64 + thread);
    auto alloc = (alloc_t)need(driver(), "cuMemAlloc_v2");
    auto release = (free_t)need(driver(), "cuMemFree_v2");
    auto set = (int (*)(void *))need(driver(), "cuCtxSetCurrent");
    struct Block { uint64_t ptr; int64_t bytes; int device; };
    std::vector<Block> tensors, blocks;
    uint64_t next = 0x10000000000ull * (thread + 1);
    // How much is kept rises and falls, so that scopes see peaks that are over, and falls.
    for (int round = 0; round < rounds; round++) {
        size_t keep = 1 + (round / 97 % 2 ? random() % 40 : random() % 4);
        unsigned what = random() % 16;
        int device = random() % devices;
        if (what == 0) {
            one_scope(random, *out);
        } else if (what < 12) {
            int64_t bytes = 512 * (1 + random() % 5000);
            if (tensors.size() < keep) {
                tensors.push_back({next, bytes, device});
                c10::reportMemoryUsageToProfiler((void *)next, bytes, 0, 0, {1, (int8_t)device});
                next += 0x1000000;
            }
            while (tensors.size() > keep) {
                size_t at = random() % tensors.size();
                std::swap(tensors[at], tensors.back());
                Block block = tensors.back();
                tensors.pop_back();
                c10::reportMemoryUsageToProfiler((void *)block.ptr, -block.bytes, 0, 0, {1, (int8_t)block.device});
            }
        } else {
            if (blocks.size() < keep) {
                CHECK(set(contexts[device]));
                Block block{0, (int64_t)(1 + random() % 3000000), device};
                CHECK(alloc(&block.ptr, block.bytes));
                blocks.push_back(block);
            }
            while (blocks.size() > keep) {
                Block block = blocks.back();
                blocks.pop_back();
                CHECK(set(contexts[block.device]));
                CHECK(release(block.ptr));
            }
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 5)
        DIE("usage: scopes SEED THREADS DEVICES ROUNDS");
    uint32_t seed = atoi(argv[1]);
    int threads = atoi(argv[2]), rounds = atoi(argv[4]);
    devices = atoi(argv[3]);
    *(void **)&begin_ = need(RTLD_DEFAULT, "gpumem_scope_begin");
    *(void **)&read_ = need(RTLD_DEFAULT, "gpumem_scope_read");
    *(void **)&reset_ = need(RTLD_DEFAULT, "gpumem_scope_reset");
    *(void **)&end_ = need(RTLD_DEFAULT, "gpumem_scope_end");
    *(void **)&forget_ = need(RTLD_DEFAULT, "gpumem_scope_forget");
    *(void **)&mark_ = need(RTLD_DEFAULT, "gpumem_mark");
    // Before there is a capture: an open scope, one that was reset, one that has ended.
    slots[0].number = begin_("early");
    slots[1].number = begin_("early and anew");
    slots[0].goes_on = slots[1].goes_on = true;
    CHECK(reset_(slots[1].number));
    uint64_t over = begin_("over");
    CHECK(end_(over));
    if (mark_("early") != 1 || access("report.bin", F_OK) == 0)
        DIE("scopes alone record nothing");
    CHECK(((int (*)(unsigned))need(driver(), "cuInit"))(0));
    for (int device = 0; device < devices; device++) {
        contexts.push_back(nullptr);
        CHECK(((int (*)(void **, int))need(driver(), "cuDevicePrimaryCtxRetain"))(&contexts.back(), device));
    }
    std::vector<std::string> out(threads);
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; thread++)
        running.emplace_back(work, thread, seed, rounds, &out[thread]);
    for (auto &thread : running)
        thread.join();
    CHECK(mark_("joined"));
    for (auto &text : out)
        fputs(text.c_str(), stdout);
    for (auto &slot : slots)
        if (slot.goes_on)
            fputs(told("goes-on", slot.number, slot.ends).c_str(), stdout);
    fputs(told("over", over, 0).c_str(), stdout);
    return 0;
}
