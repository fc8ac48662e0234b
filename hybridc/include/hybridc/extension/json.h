// JSON values, as graphs are written in: strings, numbers, lists, maps; true, false and null keep their text.
#ifndef HYBRIDC_EXTENSION_JSON_H_
#define HYBRIDC_EXTENSION_JSON_H_

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace hybridc {
namespace extension {

enum JsonType { ERR, STR, NUM, LIST, MAP };

// One value; the field of its type holds it.
struct JsonVal {
  JsonVal() : type(ERR), num(-1) {}
  explicit JsonVal(JsonType kind) : type(kind), num(-1) {}
  explicit JsonVal(const std::string& text) : type(STR), num(-1), str(text) {}
  explicit JsonVal(const char* text) : type(STR), num(-1), str(text) {}
  explicit JsonVal(int value) : type(NUM), num(value), str(std::to_string(value)) {}
  JsonVal(JsonType kind, int value, const std::string& text) : type(kind), num(value), str(text) {}

  static JsonVal parse(const std::string& text);
  std::string dump() const;
  void print(int indent = 0) const { std::cout << std::string(indent, ' ') << dump() << std::endl; }

  bool has(const std::string& key) const { return type == MAP && map.count(JsonVal(key)) != 0; }
  // The value of a key; an error names a missing one.
  const JsonVal& at(const std::string& key) const {
    if (!has(key)) throw std::runtime_error("JSON: expected a map with key \"" + key + "\"");
    return map.find(JsonVal(key))->second;
  }
  const JsonVal& at(size_t index) const {
    if (type != LIST || index >= list.size()) {
      throw std::runtime_error("JSON: expected a list of more than " + std::to_string(index) + " elements");
    }
    return list[index];
  }
  JsonVal& operator[](const std::string& key) { return map[JsonVal(key)]; }

  bool operator<(const JsonVal& other) const {
    if (type != other.type) return type < other.type;
    if (type == NUM) return num < other.num;
    if (type == LIST) return list < other.list;
    if (type == MAP) return map < other.map;
    return str < other.str;
  }

  JsonType type;
  int num;          // of a number, cut to an int
  std::string str;  // of a string; of a number what was written; of an ERR the literal (true, false, null)
  std::vector<JsonVal> list;
  std::map<JsonVal, JsonVal> map;
};

// Reads a text from front to back; an error says at which character.
class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : text_(text), at_(0) {}

  JsonVal document() {
    JsonVal value = read();
    space();
    if (at_ != text_.size()) fail("the end");
    return value;
  }

 private:
  JsonVal read() {
    space();
    if (at_ >= text_.size()) fail("a value");
    char c = text_[at_];
    if (c == '{') return read_map();
    if (c == '[') return read_list();
    if (c == '"') return JsonVal(read_string());
    size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    std::string word = text_.substr(start, at_ - start);
    if (word == "true" || word == "false" || word == "null") return JsonVal(ERR, -1, word);
    char* end = nullptr;
    double number = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0') fail("a value");
    return JsonVal(NUM, static_cast<int>(number), word);
  }
  JsonVal read_map() {
    JsonVal value(MAP);
    for (expect('{'); !accept('}'); accept(',')) {
      space();
      JsonVal key(read_string());
      expect(':');
      value.map[key] = read();
      if (!next_is(',') && !next_is('}')) fail("',' or '}'");
    }
    return value;
  }
  JsonVal read_list() {
    JsonVal value(LIST);
    for (expect('['); !accept(']'); accept(',')) {
      value.list.push_back(read());
      if (!next_is(',') && !next_is(']')) fail("',' or ']'");
    }
    return value;
  }
  std::string read_string() {
    expect('"');
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        ++at_;
        read_escape(&value);
      } else {
        value += text_[at_++];
      }
    }
    expect('"');
    return value;
  }
  void read_escape(std::string* value) {
    static const char* const names = "bfnrt";
    static const char* const meanings = "\b\f\n\r\t";
    if (at_ >= text_.size()) fail("an escape");
    char c = text_[at_++];
    if (c == 'u') {
      append_utf8(read_code(), value);
      return;
    }
    size_t known = std::string(names).find(c);
    *value += known == std::string::npos ? c : meanings[known];
  }
  // The code point after "\u"; beyond 65535 it is written as a pair of surrogates.
  unsigned read_code() {
    unsigned high = read_hex();
    if (high < 0xD800 || high > 0xDBFF || text_.compare(at_, 2, "\\u") != 0) return high;
    at_ += 2;
    return 0x10000 + ((high - 0xD800) << 10) + (read_hex() - 0xDC00);
  }
  unsigned read_hex() {
    std::string digits = text_.substr(at_, 4);
    char* end = nullptr;
    unsigned value = static_cast<unsigned>(std::strtoul(digits.c_str(), &end, 16));
    if (digits.size() != 4 || *end != '\0') fail("four hexadecimal digits");
    at_ += 4;
    return value;
  }
  static void append_utf8(unsigned code, std::string* value) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
    static const unsigned first[] = {0, 0xC0, 0xE0, 0xF0};
    *value += static_cast<char>(first[more] | (code >> (6 * more)));
    while (more-- > 0) *value += static_cast<char>(0x80 | ((code >> (6 * more)) & 0x3F));
  }

  // Of numbers, true, false, null.
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool next_is(char c) {
    space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (at_ < text_.size() && text_[at_] == '"' && c == '"') {  // inside strings spaces count
      ++at_;
      return;
    }
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  void fail(const std::string& expected) const {
    throw std::runtime_error("JSON: expected " + expected + " at character " + std::to_string(at_) + ", got \"" +
                             text_.substr(at_ < text_.size() ? at_ : text_.size(), 20) + "\"");
  }

  const std::string text_;
  size_t at_;
};

inline JsonVal JsonVal::parse(const std::string& text) { return JsonReader(text).document(); }

inline std::string json_quoted(const std::string& text) {
  static const char* const digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += std::string("\\u00") + digits[c >> 4] + digits[c & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

inline std::string JsonVal::dump() const {
  if (type == STR) return json_quoted(str);
  if (type == NUM) return str.empty() ? std::to_string(num) : str;
  if (type == ERR) return str.empty() ? "null" : str;
  std::string text;
  if (type == LIST) {
    for (const JsonVal& element : list) text += (text.empty() ? "" : ", ") + element.dump();
    return "[" + text + "]";
  }
  for (const auto& entry : map) text += (text.empty() ? "" : ", ") + entry.first.dump() + ": " + entry.second.dump();
  return "{" + text + "}";
}

// An element's text of what nodes' attributes tell of their outputs: "[2,3]" of ("[[1],[2,3]]", 1).
inline std::string getShapeAt(const std::string& shapes, unsigned index) {
  std::string text;
  JsonVal all = JsonVal::parse(shapes);
  for (const JsonVal& dim : all.at(size_t{index}).list) text += (text.empty() ? "" : ",") + dim.dump();
  return "[" + text + "]";
}
// "2" of ("[1,2]", 1).
inline std::string getDtypeAt(const std::string& types, unsigned index) {
  return JsonVal::parse(types).at(size_t{index}).dump();
}

}  // namespace extension
}  // namespace hybridc

#endif  // HYBRIDC_EXTENSION_JSON_H_
