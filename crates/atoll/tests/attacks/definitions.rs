//! Definitions and objects of one tenant cannot stall or fill the server for everybody.
