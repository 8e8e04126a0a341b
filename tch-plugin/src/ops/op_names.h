// From the names of ops to what Rust knows them by. Only record.cpp includes it.

#pragma once

#include "record.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// A name by its address: that of most ops is always the same one. Another name may come to lie there, so that the letters
// are compared nevertheless.
struct KnownName {
  const char* address;
  MlprofTchName name;
};

// A power of two.
constexpr size_t KNOWN_NAMES = 512;

// So many of them; null before a thread's first op, and after its last one. Not in the thread's own memory, of which
// threads with small stacks have none to spare, and without a destructor, as ops run while a thread is torn down: Rust
// says when it is to be given back.
thread_local KnownName* known_names = nullptr;

void forget_names() {
  std::free(known_names);
  known_names = nullptr;
}

bool is_named(const char* text, const MlprofTchName& name) {
  // Stops where the text ends.
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

// 0 where there is no more to be known of it.
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
