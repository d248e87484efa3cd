// Learning a BPE and encoding 40 MB takes some ten seconds, reading the result a tenth of one: so it is kept, one file
// per text and tokenizer, named by a hash of both. A file that is not whole is not believed, and made anew.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace clearhead {

// FNV-1a. Pass the last hash to continue it.
uint64_t hash_bytes(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325);

struct CachedTokens {
  std::string tokenizer;  // its JSON
  std::vector<int32_t> train, held_out;
};

enum class CacheState { hit, missing, damaged };
CacheState read_cache(const std::string& path, CachedTokens& tokens);

void write_cache(const std::string& path, const CachedTokens& tokens);  // ids below 65536; makes the folder

}  // namespace clearhead
