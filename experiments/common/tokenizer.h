// Text to token ids and back. Three kinds:
//
//     byte   256 bytes and <bos>: nothing to train, any text, long sequences
//     word   the most frequent words, marks and white-space characters; the rest is <unk>. Readable tables, a lower bar
//     bpe    byte-pair encoding (bpe.h): decode(encode(text)) == text for any bytes
//
// A word or a mark carries one space before it: "the cat" is "the", " cat". Every kind has a <bos>, which stands before
// each document and which encode() does not add. Saved beside a model as tokenizer.json: the kind and its data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experiments/common/bpe.h"

namespace clearhead {

class Tokenizer {
 public:
  enum class Kind { byte, word, bpe };
  static Kind kind_from(std::string_view name);  // "byte", "word" or "bpe"; anything else is an Error
  static std::string_view name_of(Kind kind);

  Tokenizer();  // of kind byte
  static Tokenizer train(Kind kind, std::string_view text, int vocab_size);
  static Tokenizer train(Kind kind, std::span<const std::string_view> documents, int vocab_size);

  std::vector<int32_t> encode(std::string_view text) const;
  std::vector<int32_t> encode_documents(std::span<const std::string_view> documents) const;  // each after a <bos>
  std::string decode(std::span<const int32_t> ids) const;  // <bos> decodes to nothing, <unk> to "<unk>"
  std::string piece(int32_t id) const;                     // to print: "·the", "\n", "<0xE2>", "<bos>"

  Kind kind() const { return kind_; }
  int32_t vocab_size() const { return int32_t(pieces_.size()); }
  int32_t bos() const { return bos_; }

  void save(const std::string& path) const;
  static Tokenizer load(const std::string& path);
  std::string to_json() const;
  static Tokenizer from_json(const std::string& json, const std::string& where);  // where: for the errors

  static constexpr int largest_vocab = 65536;  // ids fit in 16 bits

 private:
  void use_words(std::vector<std::string> words);
  void use_bpe(std::string model);
  void append(std::string_view text, std::vector<int32_t>& ids, Bpe::Cache& cache) const;

  Kind kind_ = Kind::byte;
  std::vector<std::string> pieces_;                                               // the bytes that each id stands for
  std::unordered_map<std::string, int32_t, Bpe::Hash, std::equal_to<>> word_id_;  // word only
  std::shared_ptr<const Bpe> bpe_;                                                // bpe only
  std::string model_;                                                             // bpe only: serialized
  int32_t bos_ = 0;
};

}  // namespace clearhead
