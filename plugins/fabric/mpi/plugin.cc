// The descriptor of the fabric `mpi`.
#include "ng/plugin.h"

#include "plugins/fabric/mpi/mpi_fabric.h"

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::FabricPlugin<ng::MpiFabric::Create>("mpi", "1.0.0", "the processes that mpirun started",
                                            {});
