"""The parts the tagger is trained from: treebanks, augmentation, network, ONNX graph."""
