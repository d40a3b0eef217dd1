"""Words everything else uses: ids, leadership, the cluster image, config, errors. Pure."""
