// Reports libtorch's ops, their inputs, and its allocations and frees to Rust.
//
// All entry points are `noexcept`: no exception reaches Rust, and Rust never unwinds into this
// code. libtorch may call its callbacks at any time on any thread, even while another thread
// removes them. An op that began while they were installed ends with a call of `op_ends`.

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

// Receives the reports of libtorch's allocators, per thread. It occupies the slot of torch's own
// profiler. That profiler treats any object in the slot as a `ProfilerStateBase`, so this class
// derives from it and represents a disabled profiler.
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
    // An allocator may report without calling `memoryProfilingEnabled`.
    if (wants_memory.load(std::memory_order_relaxed)) {
      const int32_t number = device.is_cpu() ? -1 : (device.has_index() ? device.index() : 0);
      receivers.memory(reinterpret_cast<uint64_t>(address), bytes, allocated, reserved, number);
    }
  }
};

// Never destroyed, because threads hold references for longer than statics live.
const std::shared_ptr<Reporter>& reporter() {
  static const auto* own = new std::shared_ptr<Reporter>(std::make_shared<Reporter>());
  return *own;
}

// An enumerator up to libtorch 2.9, an object in later versions.
inline c10::DebugInfoKind slot() {
  return c10::DebugInfoKind::PROFILER_STATE;
}

bool is_ours() {
  return c10::ThreadLocalDebugInfo::get(slot()) == reporter().get();
}

// Puts the reporter into the calling thread's slot, unless torch's own profiler occupies it.
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

// Removes the reporter from the slot, unless another object was pushed on top of it.
void detach() noexcept {
  try {
    if (is_ours()) {
      c10::ThreadLocalDebugInfo::_pop(slot());
    }
  } catch (...) {
    // The reporter stays in the slot, but reports that no memory data is requested.
  }
}

// --- Ops ----------------------------------------------------------------------------------------

// The data reported about an op's inputs.
enum class Inputs { NONE, SHAPES, ALL };

template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction& op) {
  // An asynchronous op may end on another thread.
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

// Creates the context that libtorch passes back at the end of the op. Used only if outputs are
// requested.
template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts_with_outputs(const at::RecordFunction& op) noexcept {
  try {
    op_starts<INPUTS>(op);
    // libtorch provides no outputs of autograd nodes; the ops inside them have outputs.
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
    // A subclass of tensors may throw when it is inspected.
  }
  receivers.op_ends(&op);
}

void op_ends(const at::RecordFunction& op, at::ObserverContext*) {
  receivers.op_ends(&op);
}

// A subclass of tensors may throw when its sizes are read. The op is not recorded then.
template <Inputs INPUTS>
std::unique_ptr<at::ObserverContext> op_starts_quietly(const at::RecordFunction& op) noexcept {
  try {
    return op_starts<INPUTS>(op);
  } catch (...) {
    return nullptr;
  }
}

// --- Memory that ops read ------------------------------------------------------------------------

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
    // A subclass of tensors may throw when its address is read.
  }
  return nullptr;
}

thread_local at::CallbackHandle reads = at::INVALID_CALLBACK_HANDLE;

// --- Recorded data -------------------------------------------------------------------------------

std::mutex callback_lock;
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

// Set at process exit, before libtorch destroys its statics, which include the list of callbacks. A
// profiler that is stopped later, by an exit handler from before `main`, must not access that list.
std::atomic<bool> is_ending{false};

// Id of the process that added the callback. In a forked child, another thread may have held the
// lock at the time of the fork.
std::atomic<pid_t> owner{0};

void remove_callback() {
  if (callback != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(callback);
    callback = at::INVALID_CALLBACK_HANDLE;
  }
}

// Exit handler.
void end_with_process() noexcept {
  is_ending.store(true);
  wants_memory.store(false, std::memory_order_relaxed);
  if (owner.load() != getpid()) {
    return;
  }
  const std::lock_guard<std::mutex> guard(callback_lock);
  try {
    // libtorch searches the calling thread's callbacks first. These are thread-local and already
    // destroyed on the exiting thread, so another thread removes the callback.
    std::thread(remove_callback).join();
  } catch (...) {
    // No thread could be created. The callback stays installed and remains callable.
  }
}

// Registers the exit handler. It must be called after libtorch created its list of callbacks. Exit
// handlers run in reverse order, so this one runs before the list's destructor.
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
  // All kinds of scopes are recorded, including TorchScript functions, as in torch's own profiler.
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
