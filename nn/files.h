// Files that are whole or not there: written under a temporary name, synced to disk, then renamed over the old one. A
// crash, a kill or a full disk at any moment leaves what was there before.
#pragma once

#include <string>
#include <string_view>

namespace clearhead {

void write_file(const std::string& path,
                std::string_view contents);      // Error if that is not possible; nothing is changed then
std::string read_file(const std::string& path);  // Error if it is missing, a folder or unreadable

}  // namespace clearhead
