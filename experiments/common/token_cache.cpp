// The file: one line of JSON (sizes, checksum), then the tokenizer's JSON, then both rows as 16-bit integers.
#include "experiments/common/token_cache.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nn/files.h"
#include "tensor/error.h"

namespace clearhead {
namespace {

constexpr std::string_view format = "clearhead-tokens-1";

void append_ids(std::string& bytes, const std::vector<int32_t>& ids) {
  const size_t start = bytes.size();
  bytes.resize(start + 2 * ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = uint16_t(ids[i]);
    std::memcpy(&bytes[start + 2 * i], &id, 2);
  }
}

std::vector<int32_t> ids_from(std::string_view bytes) {
  std::vector<int32_t> ids(bytes.size() / 2);
  for (size_t i = 0; i < ids.size(); ++i) {
    uint16_t id;
    std::memcpy(&id, &bytes[2 * i], 2);
    ids[i] = id;
  }
  return ids;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes, uint64_t hash) {
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

CacheState read_cache(const std::string& path, CachedTokens& tokens) {
  if (!std::filesystem::exists(path)) return CacheState::missing;
  const std::string file = read_file(path);
  const size_t line_end = file.find('\n');
  if (line_end == std::string::npos) return CacheState::damaged;
  const auto header = nlohmann::json::parse(file.begin(), file.begin() + int64_t(line_end), nullptr, false);
  const std::string_view body = std::string_view(file).substr(line_end + 1);
  try {
    const size_t text = header.at("tokenizer"), train = header.at("train"), held_out = header.at("held_out");
    if (header.at("format") != format || body.size() != text + 2 * train + 2 * held_out ||
        header.at("checksum") != hash_bytes(body))
      return CacheState::damaged;
    tokens.tokenizer = body.substr(0, text);
    tokens.train = ids_from(body.substr(text, 2 * train));
    tokens.held_out = ids_from(body.substr(text + 2 * train));
  } catch (const std::exception&) {  // a header that is no JSON, lacks a number, or lies about one
    return CacheState::damaged;
  }
  return CacheState::hit;
}

void write_cache(const std::string& path, const CachedTokens& tokens) {
  std::error_code ignored;  // write_file says what is wrong with the folder
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string body = tokens.tokenizer;
  append_ids(body, tokens.train);
  append_ids(body, tokens.held_out);
  const nlohmann::ordered_json header = {{"format", format},
                                         {"tokenizer", tokens.tokenizer.size()},
                                         {"train", tokens.train.size()},
                                         {"held_out", tokens.held_out.size()},
                                         {"checksum", hash_bytes(body)}};
  write_file(path, header.dump() + "\n" + body);
}

}  // namespace clearhead
