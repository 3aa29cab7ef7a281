"""Which public calls and methods write files, read them, open them, list them and ask for them: by their names."""

from __future__ import annotations

import re

MODEL_WRITERS = frozenset({"save", "save_weights", "export", "save_model"})
MODEL_READERS = frozenset({"load_weights"})
CHECKPOINTS = frozenset({"tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager"})
LATEST_CHECKPOINT = "latest_checkpoint"
CHECKPOINT_WRITERS = frozenset({"save", "write"})
CHECKPOINT_READERS = frozenset({"restore", "read", "restore_or_initialize"})
WRITING_FUNCTIONS = re.compile(
    r"^(?:numpy\.(?:save|savez|savez_compressed|savetxt)|matplotlib\.(?:pyplot|pylab|image)\.(?:savefig|imsave)"
    r"|tensorflow\.saved_model\.save|keras\.(?:models|saving)\.save_model|keras\.(?:utils|preprocessing\.image)\.save_img"
    r"|tensorflow\.data\.(?:Dataset|experimental)\.save"
    r"|keras\.utils\.plot_model|joblib\.dump|cv2\.imwrite|tensorflow\.io\.(?:write_file|write_graph)"
    r"|imageio\.(?:v2\.|v3\.)?(?:imwrite|imsave|mimwrite|mimsave|volwrite|volsave)|skimage\.io\.imsave"
    r"|scipy\.(?:io\.(?:savemat|mmwrite|wavfile\.write)|misc\.imsave|sparse\.save_npz)|tifffile\.(?:imwrite|imsave)"
    r"|soundfile\.write|librosa\.output\.write_wav|nibabel\.save|SimpleITK\.WriteImage|sklearn\.externals\.joblib\.dump"
    r"|tensorflow\.(?:train|compat\.v1\.train)\.write_graph"
    r"|shutil\.(?:rmtree|copy|copyfile|move)|os\.(?:remove|rename|unlink|rmdir|replace)|matplotlib\.pyplot\.show"
    r"|tensorflow\.io\.gfile\.(?:rmtree|remove|rename|copy)"
    r"|tensorflow\.gfile\.(?:DeleteRecursively|Remove|Rename|Copy))$"
)
# Writers whose path is not their first argument, or not that alone.
PATHS_OF = {
    re.compile(
        r"^(?:shutil\.(?:copy|copyfile|move)|os\.(?:rename|replace)|tensorflow\.io\.gfile\.(?:rename|copy)"
        r"|tensorflow\.gfile\.(?:Rename|Copy))$"
    ): slice(0, 2),
    re.compile(
        r"^(?:tensorflow\.saved_model\.save|keras\.(?:models|saving)\.save_model|joblib\.dump|keras\.utils\.plot_model"
        r"|tensorflow\.data\.(?:Dataset|experimental)\.save|sklearn\.externals\.joblib\.dump|nibabel\.save|SimpleITK\.WriteImage|tensorflow\.(?:\w+\.)*write_graph)$"
    ): slice(1, 2),
}
READING_FUNCTIONS = re.compile(
    r"^(?:numpy\.(?:load|loadtxt)|keras\.(?:models|saving)\.load_model|tensorflow\.saved_model\.load|joblib\.load"
    r"|tensorflow\.data\.(?:Dataset|experimental)\.load|tensorflow\.train\.load_checkpoint|tensorflow\.lite\.TFLiteConverter\.from_saved_model"
    r"|keras\.(?:utils|preprocessing)\.\w+_dataset_from_directory|tensorflow\.data\.(?:Dataset\.list_files|\w+Dataset)"
    r"|glob\.i?glob|os\.(?:listdir|walk|scandir)|tensorflow\.io\.gfile\.(?:listdir|walk|glob)"
    r"|tensorflow\.gfile\.(?:ListDirectory|Walk|Glob)|pandas\.read_\w+|PIL\.Image\.open|cv2\.imread"
    r"|imageio\.(?:v2\.|v3\.)?(?:imread|mimread)|matplotlib\.(?:pyplot|image)\.imread"
    r"|keras\.(?:utils|preprocessing\.image)\.load_img|tensorflow\.io\.read_file)$"
)
LOOKING = re.compile(
    r"^(?:builtins\.open|os\.path\.(?:exists|isfile|getsize|getmtime)|os\.stat|tensorflow\.io\.gfile\.(?:GFile|exists)"
    r"|tensorflow\.gfile\.(?:GFile|FastGFile|Open|Exists)"
    r"|shelve\.open|zipfile\.ZipFile|tarfile\.open|h5py\.File)$"
)
# Files that are open for writing in some modes, and those that always are.
FILES = re.compile(
    r"^(?:builtins\.open|io\.open|codecs\.open|gzip\.(?:open|GzipFile)|bz2\.(?:open|BZ2File)|lzma\.(?:open|LZMAFile)"
    r"|tensorflow\.io\.gfile\.GFile|tensorflow\.gfile\.(?:GFile|FastGFile|Open)|h5py\.File|zipfile\.ZipFile"
    r"|tarfile\.(?:open|TarFile))$"
)
WRITERS = frozenset({
    "tensorflow.io.TFRecordWriter", "tensorflow.python_io.TFRecordWriter", "imageio.get_writer",
    "imageio.v2.get_writer", "cv2.VideoWriter", "pandas.ExcelWriter", "matplotlib.backends.backend_pdf.PdfPages",
})  # fmt: skip
LISTING = re.compile(
    r"^(?:glob\.i?glob|os\.(?:listdir|walk|scandir)|tensorflow\.io\.gfile\.(?:listdir|walk|glob)"
    r"|tensorflow\.gfile\.(?:ListDirectory|Walk|Glob))$"
)
ASKING = re.compile(
    r"^(?:os\.path\.(?:exists|isdir|isfile)|tensorflow\.io\.gfile\.(?:exists|isdir)"
    r"|tensorflow\.gfile\.(?:Exists|IsDirectory))$"
)
FOLDERS = frozenset({"os.makedirs", "os.mkdir", "tensorflow.io.gfile.mkdir", "tensorflow.gfile.MkDir"})
# Calls that fetch or unpack what all workers read afterwards.
FETCHING = re.compile(
    r"^(?:urllib\.request\.urlretrieve|shutil\.unpack_archive|wget\.download|gdown\.download\w*|os\.system"
    r"|subprocess\.(?:run|call|check_call|check_output)|nltk\.download|kaggle\..*)$"
)
UNPACKING = frozenset({"extractall", "extract"})
ARCHIVES = ("zipfile.", "tarfile.")
SUMMARY_WRITER = "tensorflow.summary.create_file_writer"
PICTURES = ("PIL.", "keras.utils.array_to_img", "keras.preprocessing.image.array_to_img")
PATH_WRITERS = frozenset({"write_text", "write_bytes", "unlink", "rmdir", "rename"})
PATH_LISTERS = frozenset({"glob", "rglob", "iterdir"})
PATH_ASKERS = frozenset({"exists", "is_file", "is_dir"})
PATH_READERS = frozenset({"read_text", "read_bytes"}) | PATH_LISTERS
PATH_METHODS = PATH_WRITERS | PATH_READERS | {"open"}
TABLE_WRITERS = frozenset({"to_csv", "to_json", "to_pickle", "to_excel", "to_parquet", "to_hdf", "to_feather"})
MEMORY = ("io.BytesIO", "io.StringIO")
# They put files aside and open others in their place.
CHANGING_FILES = frozenset({
    f"logging.handlers.{name}" for name in ("RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler")
})  # fmt: skip
LOG_FILES = CHANGING_FILES | {"logging.FileHandler"}
FIGURES = re.compile(r"^matplotlib\.pyplot\.(?:figure|gcf|subplots)$")
# Files that may be os.devnull, by their path: what is written to that is lost, and nothing else happens.
SINKS = re.compile(
    r"^(?:builtins\.open|io\.open|codecs\.open|gzip\.open|bz2\.open|lzma\.open|logging\.(?:FileHandler|basicConfig)"
    r"|tensorflow\.(?:io|python_io)\.TFRecordWriter|tensorflow\.io\.gfile\.GFile"
    r"|tensorflow\.gfile\.(?:GFile|FastGFile|Open))$"
)
PATH_NAMES = ("file", "filename", "path", "name")
WRITING_METHODS = frozenset({
    "write", "writelines", "flush", "close", "setLevel", "setFormatter", "addFilter", "removeFilter",
})  # fmt: skip
# What writes into the file that it is given: first, as its second argument, or by the name of it.
MAKING_WRITERS = frozenset({"csv.writer", "csv.DictWriter"})
DUMPING = frozenset({"pickle.dump", "json.dump", "yaml.dump", "yaml.safe_dump", "marshal.dump"})
