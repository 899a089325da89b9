// Takes out of a schema what cannot be kept, by the error that says so.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_LOOSEN_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_LOOSEN_H_

#include <string>

#include "plugins/sampler/grammar/schema/numbers.h"

namespace ng::grammar {

// `error` begins with "at <pointer>: ". The keyword there is erased; of a schema there only its
// type is left, or nothing where that was so already. False where the pointer leads nowhere, or
// nothing would change.
bool Loosen(const std::string& error, Json* schema);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_LOOSEN_H_
