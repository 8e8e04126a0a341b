// Empty callbacks that measure libtorch's own cost of reporting ops, inputs and memory. They are a
// baseline for measurements. Built only with the feature "kineto-oracle".

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <memory>

namespace {

std::unique_ptr<at::ObserverContext> op_starts(const at::RecordFunction&) noexcept {
  return nullptr;
}

void op_ends(const at::RecordFunction&, at::ObserverContext*) noexcept {}

// As in src/ops/record.cpp, any object in this slot must be a `ProfilerStateBase`.
class Listener final : public torch::profiler::impl::ProfilerStateBase {
 public:
  Listener()
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
            torch::profiler::impl::ProfilerState::Disabled)) {}

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  bool memoryProfilingEnabled() const override {
    return true;
  }

  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

inline c10::DebugInfoKind slot() {
  return c10::DebugInfoKind::PROFILER_STATE;
}

}  // namespace

extern "C" {

// Returns the callback's handle, or 0 if libtorch fails. Memory is reported for the calling thread.
uint64_t mlprof_floor_start(bool inputs, bool memory) noexcept {
  try {
    if (memory) {
      c10::ThreadLocalDebugInfo::_push(slot(), std::make_shared<Listener>());
    }
    return at::addGlobalCallback(
        at::RecordFunctionCallback(op_starts, op_ends)
            .needsInputs(inputs)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                     at::RecordScope::USER_SCOPE}));
  } catch (...) {
    return at::INVALID_CALLBACK_HANDLE;
  }
}

void mlprof_floor_stop(uint64_t callback, bool memory) noexcept {
  try {
    at::removeCallback(callback);
    if (memory) {
      c10::ThreadLocalDebugInfo::_pop(slot());
    }
  } catch (...) {
    // The error is ignored, because the measurement has ended.
  }
}

}  // extern "C"
