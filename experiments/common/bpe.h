// Byte-pair encoding: start from characters, merge the most frequent neighbours into a new piece, repeat until the
// vocabulary is full. SentencePiece learns the merges and applies them; bpe.cpp is the only file that includes it.
//
// Encoding is exact for any bytes. Characters that are no piece fall back to one token per byte, and so does what
// SentencePiece cannot carry: control characters, invalid UTF-8, and U+2581, its own sign for a space. A newline is a
// token of its own. No piece reaches across a space, so text is encoded word by word, and each word only once (Cache).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace clearhead {

// Bytes of the UTF-8 character that s starts with; 0 where s is empty or does not start with one.
size_t utf8_length(std::string_view s);
// Where text stops being UTF-8: a byte offset, or -1 if it never does.
int64_t first_invalid_utf8(std::string_view text);

class Bpe {
 public:
  // Learns a serialized model, from an even sample of the lines where there are more than a few megabytes. The same
  // documents give the same model. A vocabulary holds 2 special ids, the newline, 256 bytes, the characters, the
  // merges.
  static std::string train(std::span<const std::string_view> documents, int vocab_size);

  explicit Bpe(const std::string& model);  // throws Error if this is no such model

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Cache = std::unordered_map<std::string, std::vector<int>, Hash, std::equal_to<>>;
  void encode(std::string_view text, std::vector<int32_t>& ids, Cache& cache) const;  // appends

  const std::vector<std::string>& pieces() const { return pieces_; }  // the bytes that each id stands for
  int32_t bos() const { return bos_; }

 private:
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> model_;
  std::vector<std::string> pieces_;
  int32_t bos_ = 0, newline_ = 0, byte_ = 0;  // byte_: the id of byte 0; the others follow
};

}  // namespace clearhead
