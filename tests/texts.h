// What the tests of texts and tokenizers share.
#pragma once

#include <filesystem>

#include "experiments/common/corpus.h"
#include "nn/files.h"
#include "tests/helpers.h"

using namespace clearhead;
using Kind = Tokenizer::Kind;

// Sentences over 400 made-up words, a line each.
inline std::string babble(uint64_t seed, int lines) {
  Rng rng(seed);
  const char* syllables[] = {"ba", "ke", "lo", "mir", "tun", "sha", "ver", "op", "qu", "zi"};
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 9; ++word) {
      if (word > 0) text += ' ';
      const int64_t first = rng.below(10), second = rng.below(10);
      text += std::string(syllables[first]) + syllables[second] +
              syllables[(first * 3 + second * second + rng.below(4)) % 10];
    }
    text += line % 7 == 6 ? ".\n\n" : ",\n";
  }
  return text;
}

class CorpusFiles : public InFolder {
 protected:
  std::string file(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write_file(path(name), contents);
    return path(name);
  }
  CorpusOptions options(std::vector<std::string> files) const {
    return {.files = std::move(files), .vocab_size = 420, .data_dir = path("data"), .cache_dir = path("cache")};
  }
  // What load_corpus says about one file with these contents.
  std::string complaint(const std::string& contents) const {
    return error_of([&] { load_corpus(options({file("a.txt", contents)})); });
  }
};
