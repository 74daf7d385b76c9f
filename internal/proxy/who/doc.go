// Package who says whose a request is: the tenant and the caller, the conversation by its content, the endpoint that a client's token names, and
// the ids of requests.
//
// It owns the API keys of tenants, the secrets of tokens and salts, and the memory in which a prompt's content is described.
//
// It promises that the keys of tenants reach no endpoint unless the configuration says so, that a token can be made and read by nobody without
// the secret, and that caches of tenants are kept apart where engines can do so.
//
// It never chooses an endpoint, and keeps nothing from one request to the next.
package who
