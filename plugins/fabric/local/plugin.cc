// The descriptor of the fabric `local`.
#include "ng/plugin.h"

#include "plugins/fabric/local/local.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::FabricPlugin<ng::LocalFabric::Create>("local", "1.0.0", "one process, nothing is sent", {});
