"""The private names that the phases outside of the compilers stand on."""
