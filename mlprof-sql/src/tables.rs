//! Location of tables, and selection of their readable files.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use url::Url;

use crate::Error;
use crate::store::register;

/// Newest schema version that the named queries support.
const SCHEMA_VERSION: u32 = 2;
/// Metadata key of the schema version.
const VERSION_KEY: &str = "mlprof.schema";
/// Tables that earlier versions did not write. Each trace has one file per table.
const LATER_TABLES: [&str; 5] = ["clocks", "modules", "pauses", "step_parts", "windows"];
/// Columns that earlier versions did not write, with their tables.
const LATER_COLUMNS: [(&str, &str); 3] =
    [("slices", "work"), ("slices", "collective"), ("ops", "work")];
/// Number of files that are inspected concurrently.
const AT_ONCE: usize = 16;

/// Folder of tables, on this machine or in an object store.
pub(crate) struct Folder {
    name: String,
    address: Url,
    store: Arc<dyn ObjectStore>,
    /// Path of the folder in the store.
    prefix: StorePath,
    tables: BTreeSet<String>,
}

impl Folder {
    /// Opens a folder and lists its tables.
    pub(crate) async fn open(context: &SessionContext, name: &str) -> Result<Self, Error> {
        let (address, remote) = match name.contains("://") {
            true => {
                let (address, remote) = register(context, name)?;
                (address, Some(remote))
            }
            false => (local(name)?, None),
        };
        let url = ListingTableUrl::try_new(address.clone(), None)?;
        let store = context.runtime_env().object_store(&url)?;
        let prefix = url.prefix().clone();
        let listed = store.list_with_delimiter(Some(&prefix)).await;
        let listed = listed.map_err(|error| match &remote {
            Some(remote) => remote.error(&error),
            None => datafusion::error::DataFusionError::from(error).into(),
        })?;
        let folders = listed.common_prefixes.iter();
        let tables: BTreeSet<String> =
            folders.filter_map(|path| path.filename().map(str::to_owned)).collect();
        let folder = Self { name: name.to_owned(), address, store, prefix, tables };
        if !folder.tables.contains("slices") && !folder.tables.contains("ranks") {
            return Err(Error::NoTables { folder: folder.name });
        }
        Ok(folder)
    }

    /// Registers the tables that a query uses. Returns the number of unreadable files that were
    /// skipped.
    pub(crate) async fn register_for(
        &self,
        context: &SessionContext,
        sql: &str,
    ) -> Result<usize, Error> {
        let state = context.state();
        let statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)?;
        let mut left_out = 0;
        for reference in state.resolve_table_references(&statement)? {
            let is_own = reference.schema().is_none();
            if !is_own {
                continue;
            }
            let table = reference.table();
            let is_outdated = LATER_TABLES.contains(&table) && self.tables.contains("slices");
            if !self.tables.contains(table) && is_outdated {
                let lacking = format!("the table {table}");
                return Err(Error::Outdated { folder: self.name.clone(), lacking });
            }
            if !self.tables.contains(table) {
                let there: Vec<_> = self.tables.iter().map(String::as_str).collect();
                return Err(Error::NoTable {
                    name: table.to_owned(),
                    folder: self.name.clone(),
                    there: there.join(", "),
                });
            }
            left_out += self.register(context, table, sql).await?;
        }
        Ok(left_out)
    }

    /// Returns the files of a table in order of their names.
    async fn files(&self, table: &str) -> Result<Vec<ObjectMeta>, Error> {
        let listed = self.store.list_with_delimiter(Some(&self.prefix.clone().join(table))).await;
        let mut files = listed.map_err(datafusion::error::DataFusionError::from)?.objects;
        files.retain(|file| file.location.filename().is_some_and(|it| it.ends_with(".parquet")));
        files.sort_by(|one, other| one.location.cmp(&other.location));
        Ok(files)
    }

    /// Registers the readable files of a table. Returns the number of skipped files.
    async fn register(
        &self,
        context: &SessionContext,
        table: &str,
        sql: &str,
    ) -> Result<usize, Error> {
        let files = self.files(table).await?;
        let mut outdated = Vec::new();
        if LATER_TABLES.contains(&table) && self.tables.contains("slices") {
            let names: BTreeSet<_> = files.iter().map(|file| file.location.filename()).collect();
            let traces = self.files("slices").await?;
            let without = traces.iter().filter(|file| !names.contains(&file.location.filename()));
            outdated.extend(without.map(|file| {
                let name = file.location.filename().unwrap_or_default();
                (format!("slices/{name}"), format!("the table {table}"))
            }));
        }
        let runtime = context.runtime_env();
        let cache = || runtime.cache_manager.get_file_metadata_cache();
        let looked_at: Vec<(ObjectMeta, Result<Schema, String>)> = stream::iter(files)
            .map(|file| async {
                let schema = self.schema(&file, cache()).await;
                (file, schema)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let wanted: Vec<&str> = LATER_COLUMNS
            .into_iter()
            .filter_map(|(of, column)| (of == table && mentions(sql, column)).then_some(column))
            .collect();
        let (mut urls, mut schemas, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (file, schema) in looked_at {
            let name = file.location.filename().unwrap_or_default();
            match schema {
                Ok(schema) => match wanted.iter().find(|name| schema.index_of(name).is_err()) {
                    Some(column) => {
                        outdated.push((format!("{table}/{name}"), format!("the column {column}")));
                    }
                    None => {
                        urls.push(self.url(table, name)?);
                        schemas.push(schema);
                    }
                },
                Err(reason) => left_out.push((format!("{table}/{name}"), reason)),
            }
        }
        let (name, folder) = (table.to_owned(), self.name.clone());
        if let Some((_, lacking)) = outdated.first().filter(|_| urls.is_empty()) {
            return Err(Error::Outdated { folder, lacking: lacking.clone() });
        }
        left_out.extend(outdated.into_iter().map(|(path, lacking)| {
            let reason = format!(
                "an earlier mlprof wrote it without {lacking}; convert its trace again with `mlprof convert`"
            );
            (path, reason)
        }));
        for (path, reason) in &left_out {
            let folder = self.name.trim_end_matches('/');
            let _ = writeln!(std::io::stderr(), "note: skipped {folder}/{path}: {reason}");
        }
        if urls.is_empty() {
            return Err(Error::NoneReadable { name, folder });
        }
        // Columns added by a later version are NULL in files of an earlier one.
        let schema = Schema::try_merge(schemas).map_err(|error| Error::Mixed {
            name,
            folder,
            reason: error.to_string(),
        })?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options.with_file_extension(".parquet"))
            .with_schema(Arc::new(schema));
        context.register_table(table, Arc::new(ListingTable::try_new(config)?))?;
        Ok(left_out.len())
    }

    fn url(&self, table: &str, file: &str) -> Result<ListingTableUrl, Error> {
        let mut url = self.address.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(table).push(file);
        }
        Ok(ListingTableUrl::try_new(url, None)?)
    }

    /// Returns the columns of a file, or the reason why it cannot be read.
    async fn schema(
        &self,
        file: &ObjectMeta,
        cache: Arc<FileMetadataCache>,
    ) -> Result<Schema, String> {
        // The metadata stays in the cache that the query uses.
        let metadata = DFParquetMetadata::new(self.store.as_ref(), file)
            .with_file_metadata_cache(Some(cache))
            .fetch_metadata()
            .await;
        let metadata = metadata.map_err(|error| {
            format!("it is not Parquet, or is incomplete: {}", error.strip_backtrace())
        })?;
        let metadata = metadata.file_metadata();
        let version = metadata
            .key_value_metadata()
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == VERSION_KEY))
            .and_then(|pair| pair.value.as_deref()?.parse::<u32>().ok())
            .ok_or("it is not an mlprof table, because it has no schema version")?;
        if version > SCHEMA_VERSION {
            return Err(format!(
                "a newer mlprof wrote it with schema version {version}, and this mlprof-sql supports versions \
                 up to {SCHEMA_VERSION}; update mlprof-sql"
            ));
        }
        let schema = parquet_to_arrow_schema(metadata.schema_descr(), None);
        let schema = schema.map_err(|error| error.to_string())?;
        let fields = schema.fields().iter().map(|field| {
            // DataFusion compares strings of this type fastest.
            let kind = match field.data_type() {
                DataType::Utf8 => DataType::Utf8View,
                other => other.clone(),
            };
            Field::new(field.name(), kind, field.is_nullable())
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Returns `true` if a word occurs in SQL text.
fn mentions(sql: &str, word: &str) -> bool {
    sql.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|it| it == word)
}

fn local(name: &str) -> Result<Url, Error> {
    let unreadable = |error| Error::Read { path: name.to_owned(), error };
    let path = Path::new(name).canonicalize().map_err(unreadable)?;
    if !path.is_dir() {
        return Err(Error::NoTables { folder: name.to_owned() });
    }
    let no_address = || Error::Address {
        address: name.to_owned(),
        reason: "the path is not valid UTF-8".to_owned(),
    };
    Url::from_directory_path(&path).map_err(|()| no_address())
}
