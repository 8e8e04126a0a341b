// Controls torch's own profiler from C++, as torch.profiler does from Python, for comparison in
// tests and measurements. Built only with the feature "kineto-oracle".

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ExperimentalConfig;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

namespace {

std::set<ActivityType> activities() {
  return {ActivityType::CPU};
}

ProfilerConfig config_of(bool shapes, bool memory, bool all_threads) {
  ExperimentalConfig extra;
  extra.profile_all_threads = all_threads;
  return ProfilerConfig(ProfilerState::KINETO, shapes, memory, false, false, false, extra);
}

void enable(const ProfilerConfig& config) {
  // No scopes are selected, so that all are recorded, as in torch.profiler.
  profiler::enableProfiler(config, activities(), {});
}

}  // namespace

extern "C" {

struct MlprofKinetoEvent {
  const char* name;
  size_t name_length;
  uint8_t scope;
  uint64_t thread;
  uint64_t forward_thread;
  int64_t sequence;
  uint64_t start;
  uint64_t nanoseconds;
  int64_t bytes;
  // The rank of each input, followed by its dimensions.
  const int64_t* shapes;
  size_t shapes_length;
};

// Returns true if any callback for the ops of all threads is registered.
bool mlprof_kineto_has_callbacks() noexcept { return at::hasGlobalCallbacks(); }

bool mlprof_kineto_start(bool shapes, bool memory, bool all_threads) noexcept {
  try {
    const ProfilerConfig config = config_of(shapes, memory, all_threads);
    profiler::prepareProfiler(config, activities());
    enable(config);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kineto: %s\n", error.what());
    return false;
  }
}

// Skips the preparation, because Kineto does not recover from a refusal after it.
bool mlprof_kineto_is_refused() noexcept {
  try {
    enable(config_of(false, false, false));
    return false;
  } catch (...) {
    return true;
  }
}

void* mlprof_kineto_stop() noexcept {
  try {
    return profiler::disableProfiler().release();
  } catch (...) {
    return nullptr;
  }
}

bool mlprof_kineto_save(void* result, const char* path) noexcept {
  try {
    static_cast<profiler::ProfilerResult*>(result)->save(path);
    return true;
  } catch (...) {
    return false;
  }
}

void mlprof_kineto_events(const void* result, void* target,
                          void (*visit)(void*, const MlprofKinetoEvent*)) {
  for (const auto& event : static_cast<const profiler::ProfilerResult*>(result)->events()) {
    const std::string name = event.name();
    std::vector<int64_t> shapes;
    for (const auto& shape : event.shapes()) {
      shapes.push_back(static_cast<int64_t>(shape.size()));
      shapes.insert(shapes.end(), shape.begin(), shape.end());
    }
    const MlprofKinetoEvent told{name.data(),           name.size(),
                                 event.scope(),         event.startThreadId(),
                                 event.fwdThreadId(),   event.sequenceNr(),
                                 event.startNs(),       event.durationNs(),
                                 event.nBytes(),        shapes.data(),
                                 shapes.size()};
    visit(target, &told);
  }
}

void mlprof_kineto_free(void* result) noexcept {
  delete static_cast<profiler::ProfilerResult*>(result);
}

}  // extern "C"
