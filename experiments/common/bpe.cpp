#include "experiments/common/bpe.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>

#include "tensor/error.h"

namespace clearhead {

size_t utf8_length(std::string_view s) {
  if (s.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t n = byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : byte(0) < 0xF5 ? 4 : 0;
  if (n == 0 || s.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xED && byte(1) > 0x9F;
  const bool too_large = byte(0) == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : n;
}

int64_t first_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_length(text.substr(i));
    if (n == 0) return int64_t(i);
    i += n;
  }
  return -1;
}

namespace {

constexpr size_t sample_bytes = 4'000'000;  // to learn from: twice as much costs seconds and saves 0.6 % of the tokens
constexpr size_t line_bytes = 4096;         // longer lines are cut, at a space

// Length of what stands outside of all pieces at the start of s, or 0: a control character, a byte that is not UTF-8,
// U+2581 (SentencePiece's space) or U+2585 (its mark for unknown characters).
size_t outside(std::string_view s) {
  const auto c = static_cast<unsigned char>(s[0]);
  if (c < 0x20 || c == 0x7F) return 1;
  if (c < 0x80) return 0;
  if (s.starts_with("\u2581") || s.starts_with("\u2585")) return 3;
  return utf8_length(s) == 0 ? 1 : 0;
}

// The documents' lines, evenly thinned out to about sample_bytes.
std::vector<std::string> sample_lines(std::span<const std::string_view> documents) {
  size_t total = 0, seen = 0, taken = 0;
  for (std::string_view text : documents) total += text.size();
  std::vector<std::string> lines;
  for (std::string_view text : documents) {
    while (!text.empty()) {
      size_t n = 0;
      while (n < text.size() && outside(text.substr(n)) == 0 && (n < line_bytes || text[n] != ' '))
        n += utf8_length(text.substr(n));
      const std::string_view line = text.substr(0, n);
      text.remove_prefix(std::max<size_t>(n, 1));  // a byte outside of all pieces is skipped
      seen += n + 1;
      if (n == 0 || (total > sample_bytes && double(taken + n) > double(seen) * double(sample_bytes) / double(total)))
        continue;
      taken += n;
      lines.emplace_back(line);
    }
  }
  return lines;
}

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ >= lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t at_ = 0;
};

}  // namespace

std::string Bpe::train(std::span<const std::string_view> documents, int vocab_size) {
  const std::vector<std::string> lines = sample_lines(documents);
  bool occurs[128] = {};
  for (const std::string& line : lines)
    for (char c : line)
      if (c > 0x20) occurs[size_t(c)] = true;
  std::string ascii;  // always pieces, however rare; a character that does not occur would make SentencePiece abort
  for (int c = 0x21; c < 0x7F; ++c)
    if (occurs[c]) ascii += char(c);
  require(!ascii.empty(), "tokenizer", "there is no text to train on: no letter, digit or punctuation mark");
  const int smallest = 3 + 256 + 1 + int(ascii.size());  // the 1 is the space
  require(vocab_size >= smallest, "tokenizer", "vocab_size ", vocab_size, " is too small for bpe: this text needs ",
          smallest, " for 256 bytes, ", ascii.size(), " characters and 4 others");

  std::string model;
  Lines iterator(lines);
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", "bpe"},
       {"vocab_size", std::to_string(vocab_size)},
       {"byte_fallback", "true"},
       {"normalization_rule_name", "identity"},
       {"remove_extra_whitespaces", "false"},
       {"add_dummy_prefix", "false"},
       {"allow_whitespace_only_pieces", "true"},
       {"split_digits", "true"},
       {"character_coverage", "0.9995"},  // of what is not ASCII, the rarest become bytes
       {"required_chars", ascii},
       {"user_defined_symbols", "\n"},
       {"unk_id", "0"},
       {"bos_id", "1"},
       {"eos_id", "-1"},
       {"max_sentence_length", "20000000"},
       {"num_threads", "1"},  // one thread: the same merges every time
       {"minloglevel", "3"}},
      &iterator, &model);
  if (!status.ok()) {
    const std::string reason = status.ToString();  // "Internal: file.cc(591) [(a) == (b)] Vocabulary size too high ..."
    const size_t bracket = reason.rfind("] ");
    fail("tokenizer", "vocab_size ", vocab_size,
         " does not fit this text: ", bracket == std::string::npos ? reason : reason.substr(bracket + 2));
  }
  return model;
}

Bpe::Bpe(const std::string& model) {
  auto loaded = std::make_shared<sentencepiece::SentencePieceProcessor>();
  require(loaded->LoadFromSerializedProto(model).ok(), "tokenizer", "the SentencePiece model is damaged");
  bos_ = loaded->bos_id();
  newline_ = loaded->PieceToId("\n");
  byte_ = loaded->PieceToId("<0x00>");
  require(bos_ > 0 && newline_ > 0 && loaded->IsByte(byte_) && loaded->IsByte(byte_ + 255), "tokenizer",
          "the SentencePiece model lacks a begin sign, a newline or bytes: it was not trained here");
  for (int32_t id = 0; id < loaded->GetPieceSize(); ++id) {
    std::string piece = loaded->IdToPiece(id);
    if (id == loaded->unk_id()) piece = "<unk>";
    if (id == bos_) piece.clear();
    if (loaded->IsByte(id)) piece = std::string(1, char(id - byte_));
    for (size_t at = 0; (at = piece.find("\u2581", at)) != std::string::npos;) piece.replace(at, 3, " ");
    pieces_.push_back(std::move(piece));
  }
  model_ = std::move(loaded);
}

void Bpe::encode(std::string_view text, std::vector<int32_t>& ids, Cache& cache) const {
  while (!text.empty()) {
    size_t n = outside(text);
    if (n > 0) {
      for (char c : text.substr(0, n)) ids.push_back(c == '\n' ? newline_ : byte_ + static_cast<unsigned char>(c));
    } else {
      n = std::min(text.find_first_not_of(' '), text.size());
      while (n < text.size() && text[n] != ' ' && outside(text.substr(n)) == 0) n += utf8_length(text.substr(n));
      const std::string_view word = text.substr(0, n);
      auto known = cache.find(word);
      if (known == cache.end()) {
        known = cache.emplace(word, std::vector<int>()).first;
        const auto status = model_->Encode(word, &known->second);
        require(status.ok(), "tokenizer", "SentencePiece cannot encode: ", status.ToString());
      }
      ids.insert(ids.end(), known->second.begin(), known->second.end());
    }
    text.remove_prefix(n);
  }
}

}  // namespace clearhead
