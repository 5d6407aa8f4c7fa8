"""Parts of an exported model: manifest, export, pictures, samples, retrieval, and predictions."""
