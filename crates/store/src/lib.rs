//! The only crate that speaks SQL: PostgreSQL and SQLite behind one trait.
