package config

// Trust says what clients may do and learn that others should not.
type Trust struct {
	// TransferFields passes on what clients say of KV transfers: kv_transfer_params, ec_transfer_params,
	// disaggregated_params, bootstrap_host, encoder_urls and the like in bodies, X-Prefiller-Host-Port,
	// X-Data-Parallel-Host-Port, X-Override-* and those that pick a worker of SMG or Dynamo in headers. With them a
	// client has engines dial any address, reads what others asked, or ends engines. Turn it on only where all clients
	// are routers, such as TensorRT-LLM's orchestrator. Otherwise members become null and headers are removed. The
	// router's own legs do not need it.
	TransferFields bool `yaml:"transfer_fields"`
	// Details says who learns endpoints, addresses and causes, by X-Warmpath-Explain, in errors and at /readyz:
	// operators or all. Operators are clients on a loopback address, unless an unknown proxy stands before them, and
	// requests with admin.token as the value of X-Warmpath-Explain. Others get the same errors without these details;
	// the log has all.
	Details string `yaml:"details"`
}

// The values of Trust.Details.
const (
	detailsToOperators = "operators"
	DetailsToAll       = "all"
)
