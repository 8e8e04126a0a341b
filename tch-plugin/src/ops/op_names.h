// Maps op names to the ids that Rust assigned. Included only by record.cpp.

#pragma once

#include "record.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// A cache entry for a name at a fixed address. Another name may later be stored at the same
// address, so the text is compared as well.
struct KnownName {
  const char* address;
  MlprofTchName name;
};

// A power of two.
constexpr size_t KNOWN_NAMES = 512;

// Array of `KNOWN_NAMES` entries. It is null before a thread's first op and after its last one. It
// is on the heap, because threads with small stacks have little thread-local storage. It has no
// destructor, because ops can run while a thread is torn down. Rust reports when it must be freed.
thread_local KnownName* known_names = nullptr;

void forget_names() {
  std::free(known_names);
  known_names = nullptr;
}

bool is_named(const char* text, const MlprofTchName& name) {
  // The comparison stops at the end of the text.
  return std::strncmp(text, name.text, name.length) == 0 && text[name.length] == '\0';
}

size_t place_of(const char* text) {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(text) * uint64_t{0x9E3779B97F4A7C15};
  return (mixed >> 32) % KNOWN_NAMES;
}

__attribute__((noinline)) uint64_t look_up_name(const char* text,
                                                const MlprofTchReceivers& receivers) {
  MlprofTchName found{};
  if (!receivers.name(text, std::strlen(text), &found)) {
    return 0;
  }
  if (known_names == nullptr) {
    known_names = static_cast<KnownName*>(std::calloc(KNOWN_NAMES, sizeof(KnownName)));
  }
  if (known_names != nullptr) {
    known_names[place_of(text)] = KnownName{text, found};
  }
  return found.op;
}

// Returns 0 if the name cannot be looked up.
inline uint64_t op_of_name(const char* text, const MlprofTchReceivers& receivers) {
  if (known_names != nullptr) {
    const KnownName& known = known_names[place_of(text)];
    if (known.address == text && is_named(text, known.name)) {
      return known.name.op;
    }
  }
  return look_up_name(text, receivers);
}

}  // namespace
