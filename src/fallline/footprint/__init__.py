"""What a whole training needs in memory: parameters, gradients, states, activations, buffers, fragmentation."""
