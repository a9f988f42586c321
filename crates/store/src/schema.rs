//! Whether the schema is one that this version can work on.
//!
//! A newer version may have added to it: for the minute of a deployment both run, an older process starts again beside
//! the newer ones, and after a rollback it is the only one. So migrations that this version does not know are none of its
//! business. They only ever add; what they take away is something that the release before them no longer used.

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use std::collections::HashMap;

use crate::{MigrationFault, StoreError};

/// Where the driver writes down what ran.
pub(crate) const TABLE: &str = "_sqlx_migrations";

/// Migrations that go on beside those of a newer version. One whose text has changed is still refused.
pub(crate) fn beside_newer(mut known: Migrator) -> Migrator {
    known.set_ignore_missing(true);
    known
}

/// That every migration of this version has run, without running any: whoever only looks must not change the schema under
/// the server, which may be an older version.
pub(crate) async fn is_up_to_date(known: &Migrator, database: &mut impl Migrate) -> Result<(), StoreError> {
    if let Some(version) = database.dirty_version(TABLE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    let applied = database.list_applied_migrations(TABLE).await?;
    let applied: HashMap<_, _> = applied.into_iter().map(|ran| (ran.version, ran.checksum)).collect();
    for migration in known.iter() {
        match applied.get(&migration.version) {
            None => return Err(StoreError::Behind(migration.version)),
            Some(checksum) if *checksum != migration.checksum => {
                return Err(StoreError::Migration(MigrationFault::Changed(migration.version)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
