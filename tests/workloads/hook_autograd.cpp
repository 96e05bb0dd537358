// A libtorch_cpu.so with the functions of PyTorch's autograd that are hooked. SEQUENCE and THREAD are where its
// nodes keep their numbers; with INTRUSIVE it exports what only PyTorch with the newer layout does. `use` makes
// nodes and runs them, each of which reports a block; arguments, results and exceptions must come through.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace c10 {
struct Device {
    int8_t type, index;
};
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device);
namespace detail {
template <class T> struct intrusive_target_default_null_type {};
} // namespace detail
template <class T, class Null = detail::intrusive_target_default_null_type<T>> struct intrusive_ptr {};
} // namespace c10

static void check(bool holds, const char *what) {
    if (!holds) {
        std::printf("%s did not come through\n", what);
        std::exit(1);
    }
}

namespace at {
struct Tensor {
    long long value;
};
enum class RecordScope : uint8_t { FUNCTION = 0, USER_SCOPE = 7 };
namespace sequence_number {
uint64_t get_and_increment() {
    static thread_local uint64_t next;
    return next++;
}
} // namespace sequence_number
struct RecordFunction {
    explicit RecordFunction(RecordScope);
    void end();
    static uint64_t currentThreadId();
    int scope, ended = 0;
};
RecordFunction::RecordFunction(RecordScope scope) : scope(int(scope)) {}
void RecordFunction::end() { ended++; }
uint64_t RecordFunction::currentThreadId() { return 1; }
} // namespace at

namespace torch::autograd {
struct Edge {
    int number;
};
struct GraphTask {};
struct InputBuffer {};
struct ReadyQueue {};

// 512 bytes of a node behind its table of functions; what has no meaning is not zero.
struct Node {
    Node(bool numbered) {
        std::memset(rest, 0xa5, sizeof rest);
        put(SEQUENCE, numbered ? at::sequence_number::get_and_increment() : UINT64_MAX);
        put(THREAD, at::RecordFunction::currentThreadId());
    }
    virtual ~Node() = default;
    virtual void run(size_t block) {
        c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(0x10000 + block * 512), 512, (block + 1) * 512,
                                         1 << 21, c10::Device{1, 0});
    }
    void put(size_t offset, uint64_t value) { std::memcpy(rest + offset - 8, &value, 8); }
    unsigned char rest[504];
};
struct AccumulateGrad : Node {
    AccumulateGrad(uint64_t variable) : Node(false) {
        put(376, variable);
        put(464, variable);
    }
};
struct Throwing : Node {
    Throwing() : Node(true) {}
    void run(size_t block) override {
        Node::run(block);
        throw std::runtime_error("thrown by a node");
    }
};

struct Engine {
    virtual ~Engine() = default;
    void evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &, const std::shared_ptr<ReadyQueue> &);
    std::vector<at::Tensor> execute(const std::vector<Edge> &, const std::vector<at::Tensor> &, bool, bool, bool,
                                    const std::vector<Edge> &);
    void execute_with_graph_task(const std::shared_ptr<GraphTask> &, c10::intrusive_ptr<Node>, InputBuffer &&);
};

static std::shared_ptr<GraphTask> task = std::make_shared<GraphTask>();
static InputBuffer buffer;
static std::shared_ptr<ReadyQueue> queue = std::make_shared<ReadyQueue>();
static size_t blocks;

void Engine::evaluate_function(std::shared_ptr<GraphTask> &a, Node *node, InputBuffer &b,
                               const std::shared_ptr<ReadyQueue> &c) {
    check(&a == &task && &b == &buffer && &c == &queue, "evaluate_function's arguments");
    node->run(blocks++);
}

std::vector<at::Tensor> Engine::execute(const std::vector<Edge> &roots, const std::vector<at::Tensor> &inputs,
                                        bool keep, bool create, bool accumulate, const std::vector<Edge> &outputs) {
    check(roots.size() == 1 && inputs.size() == 2 && outputs.size() == 3, "execute's vectors");
    check(keep && !create && accumulate, "execute's flags");
    if (roots[0].number == 13)
        throw std::runtime_error("thrown by the engine");
    return {{4711}, {4712}};
}

#ifdef INTRUSIVE
void Engine::execute_with_graph_task(const std::shared_ptr<GraphTask> &, c10::intrusive_ptr<Node>, InputBuffer &&) {}
#endif
} // namespace torch::autograd

using namespace torch::autograd;

extern "C" void use(const char *) {
    Engine engine;
    auto evaluate = [&](Node *node) { engine.evaluate_function(task, node, buffer, queue); };
    auto execute = [&](int number) {
        return engine.execute({{number}}, {{1}, {2}}, true, false, true, {{1}, {2}, {3}});
    };
    Node(true).run(blocks++); // the recording begins
    auto made = execute(1);
    check(made.size() == 2 && made[0].value == 4711 && made[1].value == 4712, "execute's result");
    int caught = 0;
    for (int i = 0; i < 200; i++) {
        Node node(true);
        evaluate(&node);
    }
    for (int i = 0; i < 3; i++) {
        Throwing node;
        try {
            evaluate(&node);
        } catch (const std::runtime_error &) {
            caught++;
        }
        try {
            execute(13);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    // Parameters that lead nowhere.
    static uint64_t zeros[8], chain[8];
    chain[2] = chain[3] = 0x7ffffff00008;
    for (uint64_t variable :
         {uint64_t(0), uint64_t(1), uint64_t(0x10000), uint64_t(0xa5a5a5a5a5a5a5a5), uint64_t(0x7ffffffff000),
          uint64_t(zeros), uint64_t(chain)}) {
        AccumulateGrad node(variable);
        evaluate(&node);
    }
    for (auto scope : {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}) {
        at::RecordFunction function(scope);
        function.end();
        check(function.scope == int(scope) && function.ended == 1, "RecordFunction");
    }
    Node(true).run(blocks++); // no node runs
    std::printf("%zu blocks, %d exceptions\n", blocks, caught);
}
