//! Answers, compared with the real API server's.
