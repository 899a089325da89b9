// A model that is not on this machine, which ng-fetch can bring.
#ifndef NG_APPS_RUN_OFFER_FETCH_H_
#define NG_APPS_RUN_OFFER_FETCH_H_

#include "ng/engine.h"
#include "ng/status.h"

namespace ng::run {

// Where the command line names a model of the hub that is not here, and somebody is at a terminal:
// runs ng-fetch, which says how large it is and asks. Nobody is asked and nothing is fetched
// otherwise. OK where there is nothing to offer, or the user does not want it: then the run says
// what is missing. Errors: what ng-fetch has told; InterruptedError.
absl::Status OfferToFetch(const EngineOptions& options);

}  // namespace ng::run

#endif  // NG_APPS_RUN_OFFER_FETCH_H_
