#include "experiments/common/tokenizer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "nn/files.h"
#include "tensor/error.h"

namespace clearhead {
namespace {

constexpr std::array<std::string_view, 3> kind_names = {"byte", "word", "bpe"};
constexpr int32_t word_unk = 0, word_bos = 1;

// A letter, a digit, an underscore, or any byte of a character beyond ASCII.
bool in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || std::isalnum(byte) != 0;
}

// How far the first word reaches: one optional space, then a word (don't, x_1) or a mark; or one white-space character.
size_t word_length(std::string_view text) {
  const size_t start = text.size() > 1 && text[0] == ' ' && std::isspace(static_cast<unsigned char>(text[1])) == 0;
  size_t n = start;
  while (n < text.size() && (in_word(text[n]) || (text[n] == '\'' && n > start && n + 1 < text.size() &&
                                                  in_word(text[n - 1]) && in_word(text[n + 1]))))
    ++n;
  return n > start ? n : start + 1;
}

// The most frequent words first, and among equals in the order of their bytes.
std::vector<std::string> frequent_words(std::span<const std::string_view> documents, int vocab_size) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (std::string_view text : documents)
    while (!text.empty()) {
      const size_t n = word_length(text);
      ++counts[text.substr(0, n)];
      text.remove_prefix(n);
    }
  require(vocab_size <= int64_t(counts.size()) + 2, "tokenizer", "vocab_size ", vocab_size,
          " does not fit this text: it has only ", counts.size(), " different words (and <unk>, <bos>)");
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> words;
  for (int i = 0; i < vocab_size - 2; ++i) words.emplace_back(sorted[size_t(i)].first);
  return words;
}

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {  // 3 bytes are 4 digits; '=' fills up the last 4
  std::string digits;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) digits += i + j <= bytes.size() ? base64_digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return digits;
}

std::string from_base64(std::string_view digits) {
  std::string bytes;
  uint32_t group = 0;
  int bits = 0;
  for (char c : digits.substr(0, std::min(digits.find('='), digits.size()))) {
    const size_t value = base64_digits.find(c);
    require(value != std::string_view::npos, "tokenizer", "the model is not base64");
    group = group << 6 | uint32_t(value);
    if ((bits += 6) >= 8) bytes += char(group >> (bits -= 8) & 255);
  }
  return bytes;
}

}  // namespace

Tokenizer::Kind Tokenizer::kind_from(std::string_view name) {
  for (size_t i = 0; i < kind_names.size(); ++i)
    if (kind_names[i] == name) return Kind(i);
  fail("tokenizer", "unknown kind '", name, "': byte, word or bpe");
}

std::string_view Tokenizer::name_of(Kind kind) { return kind_names[size_t(kind)]; }

Tokenizer::Tokenizer() : bos_(256) {
  for (int c = 0; c < 256; ++c) pieces_.emplace_back(1, char(c));
  pieces_.emplace_back();
}

void Tokenizer::use_words(std::vector<std::string> words) {
  kind_ = Kind::word;
  bos_ = word_bos;
  pieces_ = {"<unk>", ""};
  pieces_.insert(pieces_.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
  for (size_t i = 2; i < pieces_.size(); ++i) word_id_.emplace(pieces_[i], int32_t(i));
}

void Tokenizer::use_bpe(std::string model) {
  kind_ = Kind::bpe;
  bpe_ = std::make_shared<const Bpe>(model);
  model_ = std::move(model);
  bos_ = bpe_->bos();
  pieces_ = bpe_->pieces();
}

Tokenizer Tokenizer::train(Kind kind, std::string_view text, int vocab_size) {
  return train(kind, std::span(&text, 1), vocab_size);
}

Tokenizer Tokenizer::train(Kind kind, std::span<const std::string_view> documents, int vocab_size) {
  Tokenizer tokenizer;
  if (kind == Kind::byte) {
    require(vocab_size == 257, "tokenizer", "vocab_size must be 257 for byte (256 bytes and <bos>), got ", vocab_size);
    return tokenizer;
  }
  const int least = kind == Kind::word ? 3 : 261;  // word: one word; bpe: the newline, 256 bytes, a space, a letter
  require(vocab_size >= least && vocab_size <= largest_vocab, "tokenizer", "vocab_size must be ", least, " to ",
          largest_vocab, " for ", name_of(kind), ", got ", vocab_size);
  for (size_t i = 0; i < documents.size(); ++i) {
    const int64_t offset = first_invalid_utf8(documents[i]);
    require(offset < 0, "tokenizer", "document ", i, " is not UTF-8 at byte ", offset);
  }
  if (kind == Kind::word) tokenizer.use_words(frequent_words(documents, vocab_size));
  if (kind == Kind::bpe) tokenizer.use_bpe(Bpe::train(documents, vocab_size));
  return tokenizer;
}

void Tokenizer::append(std::string_view text, std::vector<int32_t>& ids, Bpe::Cache& cache) const {
  if (kind_ == Kind::byte)
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  if (kind_ == Kind::word)
    while (!text.empty()) {
      const size_t n = word_length(text);
      const auto known = word_id_.find(text.substr(0, n));
      ids.push_back(known == word_id_.end() ? word_unk : known->second);
      text.remove_prefix(n);
    }
  if (kind_ == Kind::bpe) bpe_->encode(text, ids, cache);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  Bpe::Cache cache;
  append(text, ids, cache);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_documents(std::span<const std::string_view> documents) const {
  std::vector<int32_t> ids;
  Bpe::Cache cache;
  for (std::string_view text : documents) {
    ids.push_back(bos_);
    append(text, ids, cache);
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) {
    require(id >= 0 && id < vocab_size(), "tokenizer", "token id ", id, " is not in 0 .. ", vocab_size() - 1);
    text += pieces_[size_t(id)];
  }
  return text;
}

std::string Tokenizer::piece(int32_t id) const {
  const std::string bytes = decode(std::span(&id, 1));
  if (id == bos_) return "<bos>";
  std::string printable;
  for (size_t i = 0; i < bytes.size();) {
    const size_t n = std::max<size_t>(utf8_length(std::string_view(bytes).substr(i)), 1);
    const auto byte = static_cast<unsigned char>(bytes[i]);
    char hex[8];
    std::snprintf(hex, sizeof hex, "<0x%02X>", byte);
    const bool bare = n == 1 && (byte < 0x20 || byte >= 0x7F);
    printable += byte == ' ' ? "·" : byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : bare ? hex : bytes.substr(i, n);
    i += n;
  }
  return printable;
}

std::string Tokenizer::to_json() const {
  nlohmann::ordered_json json = {
      {"format", "clearhead-tokenizer"}, {"kind", name_of(kind_)}, {"vocab_size", vocab_size()}};
  if (kind_ == Kind::word) json["words"] = std::vector(pieces_.begin() + 2, pieces_.end());
  if (kind_ == Kind::bpe) json["sentencepiece"] = to_base64(model_);
  return json.dump() + "\n";
}

Tokenizer Tokenizer::from_json(const std::string& text, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  require(json.is_object() && json.value("format", nlohmann::json()) == "clearhead-tokenizer", where,
          "is not a tokenizer file");
  const In file(where);
  Tokenizer tokenizer;
  try {
    const Kind kind = kind_from(json.at("kind").get<std::string>());
    if (kind == Kind::word) tokenizer.use_words(json.at("words").get<std::vector<std::string>>());
    if (kind == Kind::bpe) tokenizer.use_bpe(from_base64(json.at("sentencepiece").get<std::string>()));
    require(tokenizer.vocab_size() == json.at("vocab_size").get<int64_t>(), "tokenizer", "has ", tokenizer.vocab_size(),
            " tokens and claims ", json.at("vocab_size").get<int64_t>());
  } catch (const nlohmann::json::exception& e) {
    fail("tokenizer", "is damaged: ", e.what());
  }
  return tokenizer;
}

void Tokenizer::save(const std::string& path) const { write_file(path, to_json()); }

Tokenizer Tokenizer::load(const std::string& path) { return from_json(read_file(path), path); }

}  // namespace clearhead
