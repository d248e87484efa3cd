#include "experiments/common/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "experiments/common/token_cache.h"
#include "nn/files.h"
#include "tensor/error.h"
#include "tensor/parallel.h"

namespace clearhead {
namespace {

constexpr int64_t shortest_text = 1000;  // bytes in all: below this there is nothing to learn or to hold out
constexpr double share = 0.05;           // held out
constexpr int64_t documents_per_task = 512;

// A file's text: checked, without a byte order mark, with \n at line ends.
std::string read_text(const std::string& path) {
  std::string text = read_file(path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  require(!text.empty(), path, "is empty");
  const size_t zero = text.find('\0');
  require(zero == std::string::npos, path, "is not text: a zero byte at offset ", zero);
  if (const int64_t offset = first_invalid_utf8(text); offset >= 0)
    fail(path, fmt::format("is not UTF-8: byte 0x{:02X} at offset {}", uint8_t(text[size_t(offset)]), offset));
  if (text.find('\r') != std::string::npos) {
    size_t n = 0;
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') text[n++] = text[i];
    text.resize(n);
  }
  return text;
}

std::vector<int32_t> encode_all(const Tokenizer& tokenizer, const std::vector<std::string_view>& documents) {
  const auto n = int64_t(documents.size());
  std::vector<std::vector<int32_t>> parts(size_t((n + documents_per_task - 1) / documents_per_task));
  parallel_for(n, documents_per_task, [&](int64_t begin, int64_t end) {
    parts[size_t(begin / documents_per_task)] =
        tokenizer.encode_documents(std::span(documents).subspan(size_t(begin), size_t(end - begin)));
  });
  std::vector<int32_t> ids;
  for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
  return ids;
}

int64_t total_bytes(const std::vector<std::string_view>& documents) {
  int64_t n = 0;
  for (std::string_view text : documents) n += int64_t(text.size());
  return n;
}

// Where the held-out tail starts: at the last line between 90 and 93 %, failing that at a word, failing that at a
// character.
size_t tail_start(std::string_view text) {
  const size_t aim = text.size() - text.size() * 7 / 100, least = text.size() - text.size() / 10;
  for (char border : {'\n', ' '})
    if (const size_t at = text.rfind(border, aim); at != std::string_view::npos && at >= least) return at + 1;
  size_t at = aim;
  while (at < text.size() && utf8_length(text.substr(at)) == 0) ++at;
  return at;
}

// Fills in the tokenizer and both rows of token ids: from the cache, or anew and into the cache.
void encode_split(const Split& split, const CorpusOptions& options, Corpus& corpus) {
  const int default_size = options.tokenizer == Tokenizer::Kind::byte ? 257 : 1024;
  const int vocab_size = options.vocab_size != 0 ? options.vocab_size : default_size;
  const bool given = !options.tokenizer_file.empty();
  if (given) corpus.tokenizer = Tokenizer::load(options.tokenizer_file);

  const std::string what = given ? fmt::format("given-{:016x}", hash_bytes(corpus.tokenizer.to_json()))
                                 : fmt::format("{}-{}", Tokenizer::name_of(options.tokenizer), vocab_size);
  uint64_t key = hash_bytes(what);
  for (const auto* documents : {&split.train, &split.held_out}) {
    for (std::string_view text : *documents) key = hash_bytes("\f", hash_bytes(text, key));
    key = hash_bytes("\n", key);
  }
  const std::string file = fmt::format("{}/{}-{:016x}.tokens", options.cache_dir, what, key);
  const bool cache = !options.cache_dir.empty();
  if (CachedTokens cached; cache) {
    const CacheState state = read_cache(file, cached);
    if (state == CacheState::damaged) corpus.notes.push_back(file + " is damaged: made anew");
    if (state == CacheState::hit) {
      corpus.tokenizer = Tokenizer::from_json(cached.tokenizer, file);
      corpus.train = std::move(cached.train);
      corpus.held_out = std::move(cached.held_out);
      corpus.notes.push_back("token ids from " + file);
      return;
    }
  }

  if (!given) corpus.tokenizer = Tokenizer::train(options.tokenizer, split.train, vocab_size);
  corpus.train = encode_all(corpus.tokenizer, split.train);
  corpus.held_out = encode_all(corpus.tokenizer, split.held_out);
  if (!cache) return;
  try {
    write_cache(file, {corpus.tokenizer.to_json(), corpus.train, corpus.held_out});
  } catch (const Error& e) {  // a run without a cache is slower, not wrong
    corpus.notes.push_back(std::string("token ids are not kept for the next run: ") + e.what());
  }
}

}  // namespace

std::string text_file(const std::string& set, const std::string& part, const std::string& data_dir) {
  const std::string path = data_dir + "/" + set + "/" + part;
  const bool known = set == "code" || set == "prose";
  require(known || std::filesystem::exists(path), "corpus", "unknown text '", set,
          "': code, prose, or files of your own");
  require(std::filesystem::exists(path), path, "is not there; fetch it with scripts/fetch_text.sh ", set);
  return path;
}

std::vector<std::string_view> split_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  const auto add = [&](std::string_view document) {
    while (document.ends_with('\n')) document.remove_suffix(1);
    if (!document.empty()) documents.push_back(document);
  };
  size_t start = 0;
  for (size_t at = 0; (at = text.find('\f', at)) != std::string_view::npos; ++at) {
    const bool alone = (at == 0 || text[at - 1] == '\n') && (at + 1 == text.size() || text[at + 1] == '\n');
    if (!alone) continue;
    add(text.substr(start, at - start));
    start = std::min(at + 2, text.size());
  }
  add(text.substr(start));
  return documents;
}

Split hold_out(std::vector<std::string_view> documents) {
  Split split;
  std::unordered_set<std::string_view> seen;
  const size_t before = documents.size();
  std::erase_if(documents, [&](std::string_view text) { return !seen.insert(text).second; });
  if (const size_t n = before - documents.size(); n > 0) split.note = fmt::format("repeated documents dropped: {}", n);

  // In an order that says nothing about what the documents hold, each is held out that still fits into the share.
  std::ranges::sort(documents, [](std::string_view a, std::string_view b) {
    const uint64_t ha = hash_bytes(a), hb = hash_bytes(b);
    return ha != hb ? ha < hb : a < b;
  });
  const auto total = double(total_bytes(documents));
  double held = 0;
  for (std::string_view text : documents) {
    const bool out = held + double(text.size()) <= share * total;
    if (out) held += double(text.size());
    (out ? split.held_out : split.train).push_back(text);
  }
  if (split.held_out.empty()) {  // none is small enough: the end of the longest
    std::string_view& longest = *std::ranges::max_element(split.train, {}, &std::string_view::size);
    const size_t at = tail_start(longest);
    split.held_out.push_back(longest.substr(at));
    longest = longest.substr(0, at);
  }
  return split;
}

double Corpus::bytes_per_token() const {
  return double(train_bytes + held_out_bytes) / double(train.size() + held_out.size());
}

std::string Corpus::summary() const {
  return fmt::format(
      "{}: {:.2f} MB in {} documents, held out {:.2f} MB in {}; {} of {}: {:.2f} M tokens, held out {:.2f} M, "
      "{:.2f} bytes each",
      name, double(train_bytes) / 1e6, train_documents, double(held_out_bytes) / 1e6, held_out_documents,
      Tokenizer::name_of(tokenizer.kind()), tokenizer.vocab_size(), double(train.size()) / 1e6,
      double(held_out.size()) / 1e6, bytes_per_token());
}

Corpus load_corpus(const CorpusOptions& options) {
  Corpus corpus;
  std::vector<std::string> texts;  // owns what the documents view
  Split split;
  if (options.files.empty()) {
    corpus.name = options.set;
    for (const char* part : {"train.txt", "held_out.txt"})
      texts.push_back(read_text(text_file(options.set, part, options.data_dir)));
    split = {split_documents(texts[0]), split_documents(texts[1]), ""};
  } else {
    corpus.name = std::filesystem::path(options.files[0]).filename().string();
    if (options.files.size() > 1) corpus.name += fmt::format(" and {} more", options.files.size() - 1);
    for (const std::string& path : options.files) texts.push_back(read_text(path));
    std::vector<std::string_view> documents;
    for (const std::string& text : texts)
      for (std::string_view document : split_documents(text)) documents.push_back(document);
    const int64_t bytes = total_bytes(documents);
    require(bytes >= shortest_text, options.files.size() == 1 ? options.files[0] : corpus.name, "is too short: ", bytes,
            " bytes of text, at least ", shortest_text, " are needed");
    split = hold_out(std::move(documents));
    if (!split.note.empty()) corpus.notes.push_back(split.note);
  }
  corpus.train_documents = int64_t(split.train.size());
  corpus.held_out_documents = int64_t(split.held_out.size());
  corpus.train_bytes = total_bytes(split.train);
  corpus.held_out_bytes = total_bytes(split.held_out);
  encode_split(split, options, corpus);
  return corpus;
}

Tokens random_windows(const std::vector<int32_t>& stream, int64_t B, int64_t T, Rng& rng) {
  const auto n = int64_t(stream.size());
  require(B > 0 && T > 0, "random_windows", "B and T must be positive, got B ", B, ", T ", T);
  require(n >= T, "random_windows", "a window of ", T, " tokens does not fit into a text of ", n);
  Tokens windows(B, T);
  for (int64_t b = 0; b < B; ++b) std::copy_n(stream.begin() + rng.below(n - T + 1), T, windows.ids.begin() + b * T);
  return windows;
}

Tokens consecutive_windows(const std::vector<int32_t>& stream, int64_t T, int64_t most) {
  require(T > 0 && most >= 0, "consecutive_windows", "T must be positive and most not negative, got T ", T, ", most ",
          most);
  const int64_t fit = int64_t(stream.size()) / T;
  require(fit > 0, "consecutive_windows", "a window of ", T, " tokens does not fit into a text of ", stream.size());
  const int64_t B = most == 0 ? fit : std::min(most, fit);
  Tokens windows(B, T);
  for (int64_t b = 0; b < B; ++b) std::copy_n(stream.begin() + b * fit / B * T, T, windows.ids.begin() + b * T);
  return windows;
}

}  // namespace clearhead
