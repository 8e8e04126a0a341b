// Tells Rust which ops libtorch runs, with what inputs, and what memory it takes and frees.
//
// All entry points are `noexcept`: nothing is thrown into Rust, and Rust never unwinds into here.
// Functions that libtorch calls may be called at any time by any thread, also while another thread
// turns them off: an op that began while they were on ends with a call of `op_ends`.

#include "inputs.h"
#include "op_names.h"
#include "outputs.h"
#include "record.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/version.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>

namespace {

MlprofTchReceivers receivers{};
std::atomic<bool> wants_memory{false};
std::atomic<bool> slot_was_taken{false};

// --- Memory -------------------------------------------------------------------------------------

// What libtorch's allocators report to, thread by thread. The slot it sits in is that of torch's
// own profiler, whose code takes whatever it finds there for a `ProfilerStateBase`: so it is one,
// of a profiler that is disabled.
class Reporter final : public torch::profiler::impl::ProfilerStateBase {
 public:
  Reporter()
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
            torch::profiler::impl::ProfilerState::Disabled)) {}

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  bool memoryProfilingEnabled() const override {
    return wants_memory.load(std::memory_order_relaxed);
  }

  void reportMemoryUsage(void* address, int64_t bytes, size_t allocated, size_t reserved,
                         c10::Device device) override {
    // An allocator may report without having asked.
    if (wants_memory.load(std::memory_order_relaxed)) {
      const int32_t number = device.is_cpu() ? -1 : (device.has_index() ? device.index() : 0);
      receivers.memory(reinterpret_cast<uint64_t>(address), bytes, allocated, reserved, number);
    }
  }
};

// Never destroyed: threads hold on to it for longer than any static lives.
const std::shared_ptr<Reporter>& reporter() {
  static const auto* own = new std::shared_ptr<Reporter>(std::make_shared<Reporter>());
  return *own;
}

// An enumerator up to libtorch 2.9, later an object.
inline c10::DebugInfoKind slot() {
  return c10::DebugInfoKind::PROFILER_STATE;
}

bool is_ours() {
  return c10::ThreadLocalDebugInfo::get(slot()) == reporter().get();
}

// Puts the reporter into the calling thread's slot, unless torch's own profiler sits there.
void attach() {
  const c10::DebugInfoBase* found = c10::ThreadLocalDebugInfo::get(slot());
  if (found == reporter().get()) {
    return;
  }
  if (found != nullptr) {
    slot_was_taken.store(true, std::memory_order_relaxed);
    return;
  }
  c10::ThreadLocalDebugInfo::_push(slot(), reporter());
}

// Takes it out again, unless something of another kind lies over it.
void detach() noexcept {
  try {
    if (is_ours()) {
      c10::ThreadLocalDebugInfo::_pop(slot());
    }
  } catch (...) {
    // It stays, and says that nobody wants to know.
  }
}

// --- Ops ----------------------------------------------------------------------------------------

// What is told of an op's inputs.
enum class Inputs { NONE, SHAPES, ALL };

template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& op) {
  // Ends on another thread, if ever.
  if (op.isAsync()) {
    return nullptr;
  }
  if (C10_UNLIKELY(wants_memory.load(std::memory_order_relaxed))) {
    attach();
  }
  MlprofTchOp start{};
  start.key = &op;
  start.op = op_of_name(op.name(), receivers);
  start.sequence = op.seqNr();
  start.thread = op.threadId();
  start.forward_thread = op.forwardThreadId();
  start.is_backward = op.scope() == at::RecordScope::BACKWARD_FUNCTION;
  Words words;
  if (INPUTS == Inputs::ALL) {
    add_details(op, words);
  }
  if (INPUTS != Inputs::NONE) {
    add_inputs(op, (start.op & MLPROF_TCH_CONVOLUTION) != 0, words);
    start.words = words.data();
    start.word_count = words.size();
  }
  receivers.op_starts(&start);
  return nullptr;
}

void tell_output(uint64_t op, const OutputContext& context, const c10::IValue& output,
                 const c10::SmallVectorImpl<MlprofTchTensor>& inputs) {
  MlprofTchTensor found = describe(output.unsafeToTensorImpl());
  MlprofTchOutput told{};
  told.op = op;
  told.output = &found;
  told.inputs = inputs.data();
  told.input_count = inputs.size();
  told.numbers = context.numbers.data();
  told.number_count = context.numbers.size();
  told.knows_inputs = context.knows_inputs;
  receivers.op_returns(&told);
}

// What is given to libtorch to begin with, so that it gives it back at the end: only where outputs are wanted.
template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts_with_outputs(const at::RecordFunction& op) noexcept {
  try {
    op_starts<INPUTS>(op);
    // Of nodes of autograd libtorch tells no outputs; the ops inside them have them.
    if (op.isAsync() || op.scope() != at::RecordScope::FUNCTION) {
      return nullptr;
    }
    auto context = std::make_unique<OutputContext>();
    context->begin(op);
    return context;
  } catch (...) {
    return nullptr;
  }
}

void op_ends_with_outputs(const at::RecordFunction& op, at::ObserverContext* given) noexcept {
  try {
    if (auto* context = static_cast<OutputContext*>(given)) {
      c10::SmallVector<MlprofTchTensor, 8> inputs;
      context->end(op, [&](const c10::IValue& output) {
        if (inputs.empty()) {
          context->describe_inputs(inputs);
        }
        tell_output(op_of_name(op.name(), receivers), *context, output, inputs);
      });
    }
  } catch (...) {
    // A subclass of tensors may refuse to say what it is.
  }
  receivers.op_ends(&op);
}

void op_ends(const at::RecordFunction& op, at::ObserverContext*) {
  receivers.op_ends(&op);
}

// A subclass of tensors may refuse to say its sizes: then the op is not recorded.
template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts_quietly(const at::RecordFunction& op) noexcept {
  try {
    return op_starts<INPUTS>(op);
  } catch (...) {
    return nullptr;
  }
}

// --- What ops read -------------------------------------------------------------------------------

bool find_storage(const c10::TensorImpl& tensor, MlprofTchStorage* found) {
  if (!tensor.has_storage()) {
    return false;
  }
  const c10::Device device = tensor.device();
  found->address = reinterpret_cast<uint64_t>(tensor.storage().data());
  found->bytes = tensor.storage().nbytes();
  found->device = device.is_cpu() ? -1 : (device.has_index() ? device.index() : 0);
  return found->address != 0;
}

void tell_read(const c10::IValue& value) {
  MlprofTchStorage found{};
  if (find_storage(*value.unsafeToTensorImpl(), &found)) {
    receivers.read(&found);
  }
}

std::unique_ptr<at::ObserverContext> op_reads(const at::RecordFunction& op) noexcept {
  try {
    for (const c10::IValue& input : op.inputs()) {
      if (input.isTensor()) {
        tell_read(input);
      } else if (input.isTensorList()) {
        for (const c10::IValue& tensor : input.toListRef()) {
          tell_read(tensor);
        }
      }
    }
  } catch (...) {
    // A subclass of tensors may refuse to say where it is.
  }
  return nullptr;
}

thread_local at::CallbackHandle reads = at::INVALID_CALLBACK_HANDLE;

// --- What is recorded ----------------------------------------------------------------------------

std::mutex callback_lock;
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

// Set when the process ends, before libtorch destroys its statics: the list of callbacks is one of them, and a
// profiler that is turned off later, by an exit handler that was registered before `main`, must not touch it.
std::atomic<bool> is_ending{false};

// The process that added the callback. In a forked child another thread may have held the lock at the fork.
std::atomic<pid_t> owner{0};

void remove_callback() {
  if (callback != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(callback);
    callback = at::INVALID_CALLBACK_HANDLE;
  }
}

// An exit handler.
void end_with_process() noexcept {
  is_ending.store(true);
  wants_memory.store(false, std::memory_order_relaxed);
  if (owner.load() != getpid()) {
    return;
  }
  const std::lock_guard<std::mutex> guard(callback_lock);
  try {
    // libtorch looks among the callbacks of the calling thread first. Those of the thread that ends the process are
    // destroyed already, as all its thread-locals are, so another thread does it.
    std::thread(remove_callback).join();
  } catch (...) {
    // There is no thread to be had. It stays, and libtorch calls it as before.
  }
}

// To be called after libtorch made its list of callbacks. What is registered last runs first at the end of the
// process, so the handler runs before the list's destructor.
void end_before_libtorch() {
  owner.store(getpid());
  static const int registered = std::atexit([] { end_with_process(); });
  static_cast<void>(registered);
}

using Starts = std::unique_ptr<at::ObserverContext> (*)(const at::RecordFunction&);

Starts starts_with(Inputs inputs, bool outputs) {
  switch (inputs) {
    case Inputs::ALL:
      return outputs ? &op_starts_with_outputs<Inputs::ALL> : &op_starts_quietly<Inputs::ALL>;
    case Inputs::SHAPES:
      return outputs ? &op_starts_with_outputs<Inputs::SHAPES> : &op_starts_quietly<Inputs::SHAPES>;
    default:
      return outputs ? &op_starts_with_outputs<Inputs::NONE> : &op_starts_quietly<Inputs::NONE>;
  }
}

void add_callback(Inputs inputs, bool outputs) {
  // Scopes of all kinds, among them functions of TorchScript: torch's own profiler shows all of them.
  callback = at::addGlobalCallback(
      at::RecordFunctionCallback(starts_with(inputs, outputs),
                                 outputs ? &op_ends_with_outputs : &op_ends)
          .needsInputs(outputs || inputs != Inputs::NONE)
          .needsOutputs(outputs));
  end_before_libtorch();
}

}  // namespace

extern "C" {

void mlprof_tch_receivers(const MlprofTchReceivers* calls) noexcept {
  receivers = *calls;
}

void mlprof_tch_forget_names() noexcept { forget_names(); }

bool mlprof_tch_record(bool ops, bool shapes, bool inputs, bool memory, bool outputs) noexcept {
  if (is_ending.load()) {
    return true;
  }
  try {
    const std::lock_guard<std::mutex> guard(callback_lock);
    if (is_ending.load()) {
      return true;
    }
    remove_callback();
    wants_memory.store(memory, std::memory_order_relaxed);
    if (memory) {
      attach();
    } else {
      detach();
    }
    if (ops || memory) {
      add_callback(inputs ? Inputs::ALL : shapes ? Inputs::SHAPES : Inputs::NONE, ops && outputs);
    }
    return true;
  } catch (...) {
    return false;
  }
}

const char* mlprof_tch_version() noexcept { return TORCH_VERSION; }

bool mlprof_tch_slot_was_taken() noexcept {
  return slot_was_taken.exchange(false, std::memory_order_relaxed);
}

bool mlprof_tch_follow_reads(bool follows) noexcept {
  if (is_ending.load()) {
    return false;
  }
  try {
    if (reads != at::INVALID_CALLBACK_HANDLE) {
      at::removeCallback(reads);
      reads = at::INVALID_CALLBACK_HANDLE;
    }
    if (follows) {
      reads = at::addThreadLocalCallback(at::RecordFunctionCallback(op_reads)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
    }
    return true;
  } catch (...) {
    return false;
  }
}

bool mlprof_tch_storage(const void* tensor, bool of_gradient, MlprofTchStorage* storage) noexcept {
  try {
    const auto& whole = *static_cast<const at::Tensor*>(tensor);
    if (!whole.defined()) {
      return false;
    }
    const at::Tensor found = of_gradient ? whole.grad() : whole;
    return found.defined() && find_storage(*found.unsafeGetTensorImpl(), storage);
  } catch (...) {
    return false;
  }
}

}  // extern "C"
