//! The store on PostgreSQL: several processes share one database, each commits its groups as READ COMMITTED
//! transactions under advisory locks on every key they name.
